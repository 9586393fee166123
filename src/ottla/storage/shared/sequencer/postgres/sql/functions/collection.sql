-- The ring of tail tables, and the collection of objects that nothing refers to.

-- Whether a row of the tail counts, for one partition after the other: an index probe each.
CREATE FUNCTION tail_counts(p_slot smallint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM partitions p, LATERAL (
        SELECT FROM tail t WHERE t.slot = p_slot AND t.partition_id = p.id AND t.end_offset > p.tail_start LIMIT 1) l);
END $$;

CREATE FUNCTION turn_tail() RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_cluster cluster%ROWTYPE;
    v_next smallint;
    v_now timestamptz := clock_timestamp();
BEGIN
    PERFORM check_transaction();
    PERFORM set_config('lock_timeout', '200ms', true);
    SELECT * INTO v_cluster FROM cluster FOR UPDATE;
    v_next := (v_cluster.tail_current + 1) % 4;
    IF v_cluster.tail_next_is_empty THEN
        IF v_now >= v_cluster.tail_turned_at + interval '2 minutes' THEN
            UPDATE cluster SET tail_current = v_next, tail_turned_at = v_now,
                tail_next_is_empty = false, tail_next_moved_at = NULL;
        END IF;
        RETURN true;
    END IF;
    IF v_cluster.tail_next_moved_at IS NULL THEN
        WITH moved AS (
            DELETE FROM tail t USING partitions p
            WHERE t.slot = v_next AND t.partition_id = p.id AND t.end_offset > p.tail_start
            RETURNING t.*
        ) INSERT INTO tail SELECT v_cluster.tail_current, partition_id, base_offset, end_offset, epoch, flush,
            object_id, position, size_bytes, max_timestamp_ms, written_ms, headers, aborted, data FROM moved;
        UPDATE cluster SET tail_next_moved_at = v_now;
        RETURN true;
    END IF;
    -- A statement that began before the rows moved would find them nowhere once the table is truncated.
    IF v_now < v_cluster.tail_next_moved_at + interval '1 minute' THEN
        RETURN true;
    END IF;
    EXECUTE format('LOCK TABLE tail_%s IN ACCESS EXCLUSIVE MODE', v_next);
    -- An append that chose the table long ago and waited since: again from the beginning.
    IF tail_counts(v_next) THEN
        UPDATE cluster SET tail_next_moved_at = NULL;
        RETURN true;
    END IF;
    EXECUTE format('TRUNCATE tail_%s', v_next);
    UPDATE cluster SET tail_next_is_empty = true;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

CREATE FUNCTION abandon_objects(p_ids bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM check_transaction();
    PERFORM 1 FROM objects WHERE id = ANY (p_ids) ORDER BY id FOR NO KEY UPDATE;
    UPDATE objects SET state = 'dead', since = clock_timestamp() WHERE id = ANY (p_ids) AND state = 'reserved';
END $$;

CREATE FUNCTION find_garbage(p_max integer)
RETURNS TABLE (object_id bigint, object_key text, object_bytes bigint, object_state text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_notes bigint[];
    v_candidates bigint[];
    v_forgotten bigint;
BEGIN
    PERFORM check_transaction();
    WITH silent AS (
        SELECT node_id FROM brokers WHERE NOT ended AND expires_at < v_now - interval '10 minutes'
        ORDER BY node_id FOR UPDATE SKIP LOCKED
    ), ended AS (
        UPDATE brokers b SET ended = true FROM silent WHERE b.node_id = silent.node_id RETURNING b.session
    ) INSERT INTO ended_sessions SELECT session, v_now FROM ended ON CONFLICT DO NOTHING;
    -- An append needs the state "reserved" under the same lock, so it is one or the other.
    UPDATE objects SET state = 'dead', since = v_now WHERE id IN (
        SELECT o.id FROM ended_sessions e JOIN objects o ON o.session = e.session AND o.state = 'reserved'
        WHERE e.ended_at < v_now - interval '10 minutes'
        ORDER BY o.id LIMIT p_max FOR UPDATE OF o SKIP LOCKED);
    DELETE FROM ended_sessions e WHERE e.ended_at < v_now - interval '10 minutes'
        AND NOT EXISTS (SELECT FROM objects o WHERE o.session = e.session AND o.state = 'reserved');
    SELECT array_agg(n.id), array_agg(n.object_id) INTO v_notes, v_candidates
        FROM (SELECT id, object_id FROM released_objects ORDER BY id LIMIT p_max) n;
    PERFORM 1 FROM objects WHERE id = ANY (v_candidates) ORDER BY id FOR NO KEY UPDATE;
    UPDATE objects o SET state = 'dead', since = v_now
        WHERE o.id = ANY (v_candidates) AND o.state = 'live'
        AND NOT EXISTS (SELECT FROM segments s WHERE s.object_id = o.id)
        AND NOT EXISTS (SELECT FROM tail t JOIN partitions p ON p.id = t.partition_id
            WHERE t.object_id = o.id AND t.end_offset > p.tail_start);
    DELETE FROM released_objects WHERE id = ANY (v_notes);
    WITH gone AS (
        DELETE FROM partition_deletions WHERE deleted_at < v_now - interval '1 day' RETURNING revision
    ) SELECT max(revision) INTO v_forgotten FROM gone;
    IF v_forgotten IS NOT NULL THEN
        UPDATE holders_state SET forgotten = greatest(forgotten, v_forgotten);
    END IF;
    RETURN QUERY SELECT id, key, size_bytes, state FROM objects
        WHERE state IN ('dead', 'deleted') AND since < v_now - interval '10 minutes'
        AND (state = 'dead' OR since < v_now - interval '1 day')
        ORDER BY since LIMIT p_max;
END $$;

CREATE FUNCTION note_deleted(p_ids bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM check_transaction();
    PERFORM 1 FROM objects WHERE id = ANY (p_ids) ORDER BY id FOR UPDATE;
    DELETE FROM objects WHERE id = ANY (p_ids) AND state = 'deleted'
        AND since < clock_timestamp() - interval '1 day';
    UPDATE objects SET state = 'deleted', since = clock_timestamp() WHERE id = ANY (p_ids) AND state = 'dead';
END $$;
