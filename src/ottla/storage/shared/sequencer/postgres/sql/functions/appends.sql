-- Appends. Outcomes: 0 appended, 1 already, 2 fenced, 3 misplaced.

-- The objects of a call that may be referred to, locked: the collection locks an object before it looks for rows.
CREATE FUNCTION lock_usable_objects(p_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM objects WHERE id = ANY (p_ids) ORDER BY id FOR NO KEY UPDATE;
    RETURN (SELECT coalesce(array_agg(id), '{}') FROM objects
        WHERE id = ANY (p_ids) AND state IN ('reserved', 'live'));
END $$;

-- Reserved objects become live if rows refer to them now, else nothing ever will.
CREATE FUNCTION settle_objects(p_ids bigint[], p_sizes bigint[], p_used bigint[]) RETURNS void LANGUAGE sql AS $$
    UPDATE objects o SET
        state = CASE WHEN o.id = ANY (p_used) THEN 'live' ELSE 'dead' END,
        size_bytes = u.size_bytes, since = clock_timestamp()
    FROM unnest(p_ids, p_sizes) AS u (id, size_bytes)
    WHERE o.id = u.id AND o.state = 'reserved'
$$;

-- What becomes of each part, one after the other, where not all of them can simply be appended.
CREATE FUNCTION judge_parts(
    p_flush uuid, p_partitions bigint[], p_epochs integer[], p_bases bigint[], p_ends bigint[],
    p_objects bigint[], p_usable bigint[]
) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    v_outcomes integer[] := array_fill(2, ARRAY[cardinality(p_partitions)]);
    v_part record;
    v_partition bigint;
    v_end bigint;
BEGIN
    FOR v_part IN
        SELECT u.*, p.epoch AS current_epoch, p.end_offset
        FROM unnest(p_partitions, p_epochs, p_bases, p_ends, p_objects) WITH ORDINALITY
            AS u (partition_id, epoch, part_base, part_end, object_id, place)
        LEFT JOIN partitions p ON p.id = u.partition_id
        ORDER BY u.partition_id, u.place
    LOOP
        IF v_part.partition_id IS DISTINCT FROM v_partition THEN
            v_partition := v_part.partition_id;
            v_end := v_part.end_offset;
        END IF;
        IF EXISTS (
            SELECT FROM tail WHERE partition_id = v_part.partition_id
            AND end_offset = v_part.part_end AND flush = p_flush
        ) THEN
            v_outcomes[v_part.place] := 1;
        ELSIF v_part.current_epoch IS DISTINCT FROM v_part.epoch
            OR (v_part.object_id IS NOT NULL AND v_part.object_id <> ALL (p_usable)) THEN
            v_outcomes[v_part.place] := 2;
        ELSIF v_part.part_base <> v_end THEN
            v_outcomes[v_part.place] := 3;
        ELSE
            v_outcomes[v_part.place] := 0;
            v_end := v_part.part_end;
        END IF;
    END LOOP;
    RETURN v_outcomes;
END $$;

CREATE FUNCTION append(
    p_flush uuid, p_objects bigint[], p_object_sizes bigint[],
    p_partitions bigint[], p_epochs integer[], p_bases bigint[], p_ends bigint[],
    p_part_objects bigint[], p_positions bigint[], p_sizes bigint[], p_timestamps bigint[],
    p_headers bytea[], p_aborted bytea[], p_data bytea[]
) RETURNS integer[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_usable bigint[] := '{}';
    v_all_fit boolean;
    v_epoch_begins boolean;
    v_outcomes integer[];
    v_slot smallint;
BEGIN
    PERFORM check_transaction();
    PERFORM 1 FROM partitions WHERE id = ANY (p_partitions) ORDER BY id FOR NO KEY UPDATE;
    IF cardinality(p_objects) > 0 THEN
        v_usable := lock_usable_objects(p_objects);
    END IF;
    -- A statement of its own: one that had waited for the locks would look at what was committed before it began, and
    -- call a repetition fenced whose first try was committed.
    SELECT coalesce(bool_and(p.epoch = u.epoch
                AND u.part_base = coalesce(u.previous_end, p.end_offset)
                AND (u.object_id IS NULL OR u.object_id = ANY (v_usable))), true)
            AND count(p.id) = cardinality(p_partitions),
        coalesce(bool_or(p.last_epoch <> p.epoch), false)
        INTO v_all_fit, v_epoch_begins
        FROM (
            SELECT partition_id, epoch, part_base, object_id,
                lag(part_end) OVER (PARTITION BY partition_id ORDER BY place) AS previous_end
            FROM unnest(p_partitions, p_epochs, p_bases, p_ends, p_part_objects) WITH ORDINALITY
                AS u (partition_id, epoch, part_base, part_end, object_id, place)
        ) u LEFT JOIN partitions p ON p.id = u.partition_id;
    IF v_all_fit THEN
        v_outcomes := array_fill(0, ARRAY[cardinality(p_partitions)]);
    ELSE
        v_outcomes := judge_parts(
            p_flush, p_partitions, p_epochs, p_bases, p_ends, p_part_objects, v_usable);
    END IF;
    IF 0 = ANY (v_outcomes) THEN
        IF v_epoch_begins THEN
            INSERT INTO epochs
                SELECT p.id, p.epoch, p.end_offset FROM partitions p
                WHERE p.last_epoch <> p.epoch AND p.id IN (
                    SELECT u.partition_id FROM unnest(p_partitions, v_outcomes) AS u (partition_id, outcome)
                    WHERE u.outcome = 0)
                ON CONFLICT DO NOTHING;
        END IF;
        SELECT tail_current INTO v_slot FROM cluster;
        INSERT INTO tail (slot, partition_id, base_offset, end_offset, epoch, flush, object_id, position,
                size_bytes, max_timestamp_ms, written_ms, headers, aborted, data)
            SELECT v_slot, u.partition_id, u.part_base, u.part_end, u.epoch, p_flush, u.object_id, u.position,
                u.size_bytes, u.max_timestamp_ms, floor(extract(epoch FROM clock_timestamp()) * 1000),
                u.headers, u.aborted, u.data
            FROM unnest(p_partitions, p_epochs, p_bases, p_ends, p_part_objects, p_positions, p_sizes,
                    p_timestamps, p_headers, p_aborted, p_data, v_outcomes)
                AS u (partition_id, epoch, part_base, part_end, object_id, position, size_bytes,
                    max_timestamp_ms, headers, aborted, data, outcome)
            WHERE u.outcome = 0;
        UPDATE partitions p SET end_offset = n.end_offset, size_bytes = p.size_bytes + n.size_bytes,
                last_epoch = p.epoch
            FROM (
                SELECT partition_id, max(part_end) AS end_offset, sum(size_bytes) AS size_bytes
                FROM unnest(p_partitions, p_ends, p_sizes, v_outcomes)
                    AS u (partition_id, part_end, size_bytes, outcome)
                WHERE outcome = 0 GROUP BY partition_id
            ) n WHERE p.id = n.partition_id;
    END IF;
    IF cardinality(p_objects) > 0 THEN
        PERFORM settle_objects(p_objects, p_object_sizes, ARRAY(
            SELECT u.object_id FROM unnest(p_part_objects, v_outcomes) AS u (object_id, outcome)
            WHERE u.outcome IN (0, 1)));
    END IF;
    RETURN v_outcomes;
END $$;
