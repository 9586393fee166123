-- Sessions of brokers. Leases end by the clock of the database.

-- Every change depends on READ COMMITTED (a statement sees what was committed while an earlier one waited for locks),
-- and is durable when it is answered.
CREATE FUNCTION check_transaction() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION USING ERRCODE = 'OT009', MESSAGE =
            'the isolation of transactions has to be "read committed", and is "'
            || current_setting('transaction_isolation') || '"';
    END IF;
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END $$;

-- Not for appends: a commit with a notification waits for every other one.
CREATE FUNCTION tell(p_news text) RETURNS void LANGUAGE sql AS $$
    SELECT pg_notify('ottla:' || current_schema(), p_news)
$$;

CREATE FUNCTION refuse_ended_session() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'OT001', MESSAGE =
        'the session has ended: another broker took over, or the broker was removed';
END $$;

CREATE FUNCTION register(p_name text, p_node_id integer, p_description text, p_lease_ms integer)
RETURNS TABLE (registered_id integer, registered_session uuid, registered_cluster text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_next integer;
    v_holder brokers%ROWTYPE;
    v_id integer;
    v_session uuid := gen_random_uuid();
    v_now timestamptz;
BEGIN
    PERFORM check_transaction();
    SELECT next INTO v_next FROM node_ids FOR UPDATE;
    PERFORM 1 FROM brokers WHERE name = p_name OR node_id = p_node_id ORDER BY node_id FOR UPDATE;
    v_now := clock_timestamp();
    SELECT * INTO v_holder FROM brokers
        WHERE (name = p_name OR node_id = p_node_id) AND NOT ended AND expires_at > v_now LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'OT002', MESSAGE = format(
            'a broker with the name "%s" and the node id %s is running: its lease lasts for %s ms more',
            v_holder.name, v_holder.node_id,
            ceil(extract(epoch FROM v_holder.expires_at - v_now) * 1000));
    END IF;
    v_id := coalesce(p_node_id, (SELECT node_id FROM brokers WHERE name = p_name), v_next);
    INSERT INTO ended_sessions SELECT session, v_now FROM brokers
        WHERE (name = p_name OR node_id = p_node_id) ON CONFLICT DO NOTHING;
    DELETE FROM brokers WHERE name = p_name OR node_id = p_node_id;
    INSERT INTO brokers (node_id, name, session, description, lease_ms, expires_at, steady_since)
        VALUES (v_id, p_name, v_session, p_description, p_lease_ms,
                v_now + p_lease_ms * interval '1 ms', '-infinity');
    UPDATE node_ids SET next = greatest(next, v_id + 1);
    RETURN QUERY SELECT v_id, v_session, id FROM cluster;
END $$;

CREATE FUNCTION reserve_objects(p_session uuid, p_count integer)
RETURNS TABLE (ids bigint[], keys text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_ids bigint[];
    v_keys text[];
BEGIN
    -- Random, because ids come again when a database lost its newest changes.
    WITH made AS (
        SELECT nextval(pg_get_serial_sequence('objects', 'id')) AS id,
               left(replace(gen_random_uuid()::text, '-', ''), 18) AS token
        FROM generate_series(1, p_count)
    ), reserved AS (
        INSERT INTO objects (id, key, session, state) OVERRIDING SYSTEM VALUE
        SELECT id, left(token, 2) || '/' || id || '-' || substr(token, 3), p_session, 'reserved'
        FROM made RETURNING id, key
    )
    SELECT coalesce(array_agg(id ORDER BY id), '{}'), coalesce(array_agg(key ORDER BY id), '{}')
        INTO v_ids, v_keys FROM reserved;
    RETURN QUERY SELECT v_ids, v_keys;
END $$;

CREATE FUNCTION heartbeat(p_session uuid, p_applied bigint, p_objects integer, p_lease_ms integer)
RETURNS TABLE (catalog_revision bigint, holders_revision bigint, members text, ids bigint[], keys text[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_own brokers%ROWTYPE;
    v_now timestamptz;
    v_ids bigint[] := '{}';
    v_keys text[] := '{}';
BEGIN
    PERFORM check_transaction();
    SELECT * INTO v_own FROM brokers WHERE session = p_session FOR UPDATE;
    IF NOT FOUND OR v_own.ended THEN
        PERFORM refuse_ended_session();
    END IF;
    v_now := clock_timestamp();
    UPDATE brokers SET
        expires_at = v_now + p_lease_ms * interval '1 ms',
        lease_ms = p_lease_ms,
        steady_since = CASE WHEN expires_at <= v_now THEN v_now ELSE steady_since END,
        applied_revision = p_applied
    WHERE session = p_session;
    IF v_own.applied_revision <> p_applied THEN
        PERFORM tell('applied');
    END IF;
    IF p_objects > 0 THEN
        SELECT r.ids, r.keys INTO v_ids, v_keys FROM reserve_objects(p_session, p_objects) r;
    END IF;
    RETURN QUERY SELECT
        (SELECT revision FROM catalog_state),
        (SELECT revision FROM holders_state),
        (SELECT json_agg(json_build_object(
            'node_id', node_id, 'name', name, 'session', session, 'description', description,
            'is_live', NOT ended AND expires_at > v_now, 'applied_revision', applied_revision
        ) ORDER BY node_id)::text FROM brokers),
        v_ids, v_keys;
END $$;

CREATE FUNCTION end_session(p_session uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM check_transaction();
    UPDATE brokers SET ended = true WHERE session = p_session AND NOT ended;
    IF FOUND THEN
        INSERT INTO ended_sessions VALUES (p_session, clock_timestamp()) ON CONFLICT DO NOTHING;
        PERFORM tell('holders');
    END IF;
END $$;

CREATE FUNCTION describe_broker(p_session uuid, p_description text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM check_transaction();
    UPDATE brokers SET description = p_description WHERE session = p_session AND NOT ended;
    IF NOT FOUND THEN
        PERFORM refuse_ended_session();
    END IF;
END $$;

CREATE FUNCTION remove_broker(p_node_id integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_broker brokers%ROWTYPE;
BEGIN
    PERFORM check_transaction();
    SELECT * INTO v_broker FROM brokers WHERE node_id = p_node_id FOR UPDATE;
    IF NOT FOUND OR (NOT v_broker.ended AND v_broker.expires_at > clock_timestamp()) THEN
        RETURN false;
    END IF;
    INSERT INTO ended_sessions VALUES (v_broker.session, clock_timestamp()) ON CONFLICT DO NOTHING;
    DELETE FROM brokers WHERE node_id = p_node_id;
    RETURN true;
END $$;

CREATE FUNCTION take_task(p_session uuid, p_task text, p_lease_ms integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM check_transaction();
    IF NOT EXISTS (SELECT FROM brokers WHERE session = p_session AND NOT ended) THEN
        PERFORM refuse_ended_session();
    END IF;
    INSERT INTO tasks AS t
        VALUES (p_task, p_session, clock_timestamp() + p_lease_ms * interval '1 ms')
        ON CONFLICT (name) DO UPDATE SET session = excluded.session, until = excluded.until
        WHERE t.session = p_session OR t.until <= clock_timestamp()
            OR NOT EXISTS (SELECT FROM brokers b WHERE b.session = t.session AND NOT b.ended);
    RETURN FOUND;
END $$;
