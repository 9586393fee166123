-- Who holds which partition. The order of locks: catalog, partitions by id, brokers, the counter of holders.

-- A claim and everything that changes a partition lock its row, and look at it in a later statement:
-- what was committed while the lock was waited for is seen only then.
CREATE FUNCTION lock_partitions(p_ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM partitions WHERE id = ANY (p_ids) ORDER BY id FOR NO KEY UPDATE;
END $$;

-- Called last in a transaction: the row stays locked until its end, so that revisions are committed in order.
CREATE FUNCTION next_holders_revision() RETURNS bigint LANGUAGE sql AS $$
    UPDATE holders_state SET revision = revision + 1 RETURNING revision
$$;

CREATE FUNCTION server_started_at() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_postmaster_start_time()';

-- Outcomes: 0 claimed, 1 held, 2 stale.
CREATE FUNCTION claim(
    p_session uuid, p_topics text[], p_topic_ids uuid[], p_numbers integer[], p_catalog_revision bigint
) RETURNS TABLE (outcome integer, claimed_id bigint, claimed_epoch integer, claimed_start bigint, claimed_end bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_ids bigint[];
    v_taken bigint[];
    v_own brokers%ROWTYPE;
    v_now timestamptz;
    v_expired uuid[];
    v_revision bigint;
BEGIN
    PERFORM check_transaction();
    SELECT revision INTO v_revision FROM catalog_state FOR SHARE;
    IF v_revision <> p_catalog_revision THEN
        RETURN QUERY SELECT 2, NULL::bigint, NULL::integer, NULL::bigint, NULL::bigint FROM unnest(p_numbers);
        RETURN;
    END IF;
    INSERT INTO partitions (topic, topic_id, number)
        SELECT DISTINCT ON (u.topic_id, u.number) u.topic, u.topic_id, u.number
        FROM unnest(p_topics, p_topic_ids, p_numbers) AS u (topic, topic_id, number)
        WHERE NOT EXISTS (
            SELECT FROM partitions p WHERE p.topic_id = u.topic_id AND p.number = u.number)
        ORDER BY u.topic_id, u.number
        ON CONFLICT (topic_id, number) DO NOTHING;
    SELECT array_agg(p.id) INTO v_ids
        FROM unnest(p_topic_ids, p_numbers) AS u (topic_id, number)
        JOIN partitions p ON p.topic_id = u.topic_id AND p.number = u.number;
    PERFORM lock_partitions(v_ids);
    PERFORM 1 FROM brokers WHERE session = p_session
        OR session IN (SELECT session FROM partitions WHERE id = ANY (v_ids))
        ORDER BY node_id FOR UPDATE;
    v_now := clock_timestamp();
    SELECT * INTO v_own FROM brokers WHERE session = p_session AND NOT ended;
    IF NOT FOUND THEN
        PERFORM refuse_ended_session();
    END IF;
    -- After an outage of the database all leases have ended, and the first that is back must not take everything.
    IF greatest(v_own.steady_since, server_started_at()) + v_own.lease_ms * interval '1 ms' <= v_now THEN
        SELECT array_agg(session) INTO v_expired FROM brokers
            WHERE session IN (SELECT session FROM partitions WHERE id = ANY (v_ids))
            AND session <> p_session AND NOT ended AND expires_at <= v_now;
        IF v_expired IS NOT NULL THEN
            UPDATE brokers SET ended = true WHERE session = ANY (v_expired);
            INSERT INTO ended_sessions SELECT s, v_now FROM unnest(v_expired) AS s ON CONFLICT DO NOTHING;
        END IF;
    END IF;
    SELECT coalesce(array_agg(p.id), '{}') INTO v_taken FROM partitions p
        WHERE p.id = ANY (v_ids) AND (p.session IS NULL OR p.session = p_session
            OR NOT EXISTS (SELECT FROM brokers b WHERE b.session = p.session AND NOT b.ended));
    IF cardinality(v_taken) > 0 THEN
        v_revision := next_holders_revision();
        UPDATE partitions SET epoch = epoch + 1, session = p_session, node_id = v_own.node_id,
            wanted_node = NULL, revision = v_revision
        WHERE id = ANY (v_taken);
        PERFORM tell('holders');
    END IF;
    RETURN QUERY SELECT
        CASE WHEN p.id = ANY (v_taken) THEN 0 WHEN p.id IS NULL THEN 2 ELSE 1 END,
        p.id, p.epoch, p.start_offset, p.end_offset
        FROM unnest(p_topic_ids, p_numbers) WITH ORDINALITY AS u (topic_id, number, place)
        LEFT JOIN partitions p ON p.topic_id = u.topic_id AND p.number = u.number
        ORDER BY u.place;
END $$;

CREATE FUNCTION release(p_session uuid, p_ids bigint[], p_wanted integer[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_revision bigint;
BEGIN
    PERFORM check_transaction();
    PERFORM lock_partitions(p_ids);
    IF NOT EXISTS (SELECT FROM partitions WHERE id = ANY (p_ids) AND session = p_session) THEN
        RETURN;
    END IF;
    v_revision := next_holders_revision();
    UPDATE partitions p SET session = NULL, wanted_node = u.wanted, revision = v_revision
        FROM unnest(p_ids, p_wanted) AS u (id, wanted)
        WHERE p.id = u.id AND p.session = p_session;
    PERFORM tell('holders');
END $$;

CREATE FUNCTION delete_partitions(p_topic_ids uuid[], p_numbers integer[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_ids bigint[];
    v_revision bigint;
BEGIN
    PERFORM check_transaction();
    SELECT array_agg(p.id) INTO v_ids
        FROM unnest(p_topic_ids, p_numbers) AS u (topic_id, number)
        JOIN partitions p ON p.topic_id = u.topic_id AND p.number = u.number;
    PERFORM lock_partitions(v_ids);
    SELECT array_agg(id) INTO v_ids FROM partitions WHERE id = ANY (v_ids);
    IF v_ids IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO released_objects (object_id)
        SELECT object_id FROM segments WHERE partition_id = ANY (v_ids) AND object_id IS NOT NULL
        UNION SELECT t.object_id FROM tail t JOIN partitions p ON p.id = t.partition_id
            WHERE p.id = ANY (v_ids) AND t.end_offset > p.tail_start AND t.object_id IS NOT NULL;
    DELETE FROM segments WHERE partition_id = ANY (v_ids);
    DELETE FROM epochs WHERE partition_id = ANY (v_ids);
    DELETE FROM snapshots WHERE partition_id = ANY (v_ids);
    v_revision := next_holders_revision();
    WITH gone AS (DELETE FROM partitions WHERE id = ANY (v_ids) RETURNING topic_id, topic, number)
        INSERT INTO partition_deletions
        SELECT v_revision, topic_id, topic, number, clock_timestamp() FROM gone;
    PERFORM tell('holders');
END $$;
