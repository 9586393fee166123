-- Changes of what is stored: trims, snapshots, replacements by segments.

CREATE FUNCTION trim_partitions(p_ids bigint[], p_epochs integer[], p_starts bigint[]) RETURNS boolean[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_answers boolean[] := array_fill(false, ARRAY[cardinality(p_ids)]);
    v_partition partitions%ROWTYPE;
    v_objects bigint[] := '{}';
    v_gone_objects bigint[];
    v_gone_bytes bigint;
    v_tail_bytes bigint;
    v_tail_start bigint;
BEGIN
    PERFORM check_transaction();
    PERFORM lock_partitions(p_ids);
    FOR i IN 1 .. cardinality(p_ids) LOOP
        SELECT * INTO v_partition FROM partitions WHERE id = p_ids[i];
        CONTINUE WHEN NOT FOUND OR v_partition.epoch <> p_epochs[i] OR p_starts[i] > v_partition.end_offset;
        v_answers[i] := true;
        CONTINUE WHEN p_starts[i] <= v_partition.start_offset;
        WITH gone AS (
            DELETE FROM segments WHERE partition_id = p_ids[i] AND end_offset <= p_starts[i]
            RETURNING object_id, size_bytes
        ) SELECT coalesce(sum(size_bytes), 0), array_agg(object_id) INTO v_gone_bytes, v_gone_objects FROM gone;
        v_objects := v_objects || coalesce(v_gone_objects, '{}');
        SELECT coalesce(sum(size_bytes), 0), array_agg(object_id), coalesce(max(end_offset), v_partition.tail_start)
            INTO v_tail_bytes, v_gone_objects, v_tail_start
            FROM tail WHERE partition_id = p_ids[i]
            AND end_offset > v_partition.tail_start AND end_offset <= p_starts[i];
        v_objects := v_objects || coalesce(v_gone_objects, '{}');
        UPDATE partitions SET start_offset = p_starts[i], tail_start = v_tail_start,
            size_bytes = size_bytes - v_gone_bytes - v_tail_bytes WHERE id = p_ids[i];
        DELETE FROM epochs e WHERE e.partition_id = p_ids[i] AND EXISTS (
            SELECT FROM epochs l WHERE l.partition_id = e.partition_id
            AND l.epoch > e.epoch AND l.start_offset <= p_starts[i]);
    END LOOP;
    PERFORM release_objects(v_objects);
    RETURN v_answers;
END $$;

CREATE FUNCTION release_objects(p_ids bigint[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO released_objects (object_id)
    SELECT DISTINCT id FROM unnest(p_ids) AS id WHERE id IS NOT NULL
$$;

CREATE FUNCTION save_snapshot(p_id bigint, p_epoch integer, p_offset bigint, p_data bytea) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM check_transaction();
    PERFORM lock_partitions(ARRAY[p_id]);
    IF NOT EXISTS (SELECT FROM partitions WHERE id = p_id AND epoch = p_epoch AND end_offset >= p_offset) THEN
        RETURN false;
    END IF;
    INSERT INTO snapshots VALUES (p_id, p_offset, p_data)
        ON CONFLICT (partition_id, "offset") DO UPDATE SET data = excluded.data;
    DELETE FROM snapshots WHERE partition_id = p_id AND "offset" < (
        SELECT min(s."offset") FROM (
            SELECT "offset" FROM snapshots WHERE partition_id = p_id ORDER BY "offset" DESC LIMIT 2) s);
    RETURN true;
END $$;

CREATE FUNCTION save_cleaned_offset(p_id bigint, p_epoch integer, p_offset bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM check_transaction();
    PERFORM lock_partitions(ARRAY[p_id]);
    UPDATE partitions SET cleaned_offset = p_offset WHERE id = p_id AND epoch = p_epoch;
    RETURN FOUND;
END $$;

-- The segments of all replacements are in the arrays p_s_..., each with the place of its replacement.
CREATE FUNCTION replace_runs(
    p_ids bigint[], p_epochs integer[], p_starts bigint[], p_ends bigint[],
    p_s_places integer[], p_s_bases bigint[], p_s_ends bigint[], p_s_objects bigint[], p_s_positions bigint[],
    p_s_sizes bigint[], p_s_timestamps bigint[], p_s_marks bytea[], p_s_aborted bytea[], p_s_data bytea[],
    p_objects bigint[], p_object_sizes bigint[]
) RETURNS boolean[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_answers boolean[] := array_fill(false, ARRAY[cardinality(p_ids)]);
    v_usable bigint[] := '{}';
    v_partition partitions%ROWTYPE;
    v_released bigint[] := '{}';
    v_gone_objects bigint[];
    v_tail_objects bigint[];
    v_gone_bytes bigint;
    v_tail_bytes bigint;
    v_new_bytes bigint;
    v_gone_written bigint;
    v_tail_written bigint;
BEGIN
    PERFORM check_transaction();
    PERFORM lock_partitions(p_ids);
    IF cardinality(p_objects) > 0 THEN
        v_usable := lock_usable_objects(p_objects);
    END IF;
    FOR i IN 1 .. cardinality(p_ids) LOOP
        SELECT * INTO v_partition FROM partitions WHERE id = p_ids[i];
        CONTINUE WHEN NOT FOUND OR v_partition.epoch <> p_epochs[i] OR p_starts[i] > v_partition.tail_start
            OR NOT (
                EXISTS (SELECT FROM segments WHERE partition_id = p_ids[i] AND base_offset = p_starts[i]
                    AND end_offset > p_starts[i] AND end_offset <= p_ends[i])
                OR (p_starts[i] = v_partition.tail_start AND v_partition.end_offset > p_starts[i]))
            OR NOT (
                EXISTS (SELECT FROM segments WHERE partition_id = p_ids[i] AND end_offset = p_ends[i])
                OR EXISTS (SELECT FROM tail WHERE partition_id = p_ids[i] AND end_offset = p_ends[i]
                    AND end_offset > v_partition.tail_start))
            OR EXISTS (SELECT FROM unnest(p_s_places, p_s_objects) AS u (place, object_id)
                WHERE place = i AND object_id IS NOT NULL AND object_id <> ALL (v_usable));
        v_answers[i] := true;
        WITH gone AS (
            DELETE FROM segments WHERE partition_id = p_ids[i] AND end_offset > p_starts[i] AND end_offset <= p_ends[i]
            RETURNING object_id, size_bytes, written_ms
        ) SELECT coalesce(sum(size_bytes), 0), array_agg(object_id), max(written_ms)
            INTO v_gone_bytes, v_gone_objects, v_gone_written FROM gone;
        SELECT coalesce(sum(size_bytes), 0), array_agg(object_id), max(written_ms)
            INTO v_tail_bytes, v_tail_objects, v_tail_written
            FROM tail WHERE partition_id = p_ids[i]
            AND end_offset > v_partition.tail_start AND end_offset <= p_ends[i];
        v_released := v_released || coalesce(v_gone_objects, '{}') || coalesce(v_tail_objects, '{}');
        INSERT INTO segments (partition_id, base_offset, end_offset, object_id, position, size_bytes,
                max_timestamp_ms, written_ms, marks, aborted, data)
            SELECT p_ids[i], u.base_offset, u.end_offset, u.object_id, u.position, u.size_bytes,
                u.max_timestamp_ms, greatest(v_gone_written, v_tail_written), u.marks, u.aborted, u.data
            FROM unnest(p_s_places, p_s_bases, p_s_ends, p_s_objects, p_s_positions, p_s_sizes, p_s_timestamps,
                    p_s_marks, p_s_aborted, p_s_data)
                AS u (place, base_offset, end_offset, object_id, position, size_bytes, max_timestamp_ms,
                    marks, aborted, data)
            WHERE u.place = i;
        SELECT coalesce(sum(u.size_bytes), 0) INTO v_new_bytes
            FROM unnest(p_s_places, p_s_sizes) AS u (place, size_bytes) WHERE u.place = i;
        UPDATE partitions SET tail_start = greatest(tail_start, p_ends[i]),
            size_bytes = size_bytes - v_gone_bytes - v_tail_bytes + v_new_bytes WHERE id = p_ids[i];
    END LOOP;
    IF cardinality(p_objects) > 0 THEN
        PERFORM settle_objects(p_objects, p_object_sizes, ARRAY(
            SELECT u.object_id FROM unnest(p_s_places, p_s_objects) AS u (place, object_id)
            WHERE v_answers[u.place]));
    END IF;
    PERFORM release_objects(v_released);
    RETURN v_answers;
END $$;
