-- The catalog, in steps that are counted by its revision.

CREATE FUNCTION commit_catalog(
    p_session uuid, p_commit uuid, p_keys text[], p_values text[], p_changes text, p_expected bigint
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_revision bigint;
    v_applied bigint;
BEGIN
    PERFORM check_transaction();
    SELECT revision INTO v_revision FROM catalog_state FOR UPDATE;
    IF EXISTS (SELECT FROM catalog_changes WHERE revision = p_expected + 1 AND commit_id = p_commit) THEN
        RETURN p_expected + 1;
    END IF;
    IF NOT EXISTS (SELECT FROM brokers WHERE session = p_session AND NOT ended) THEN
        PERFORM refuse_ended_session();
    END IF;
    IF v_revision <> p_expected THEN
        RAISE EXCEPTION USING ERRCODE = 'OT003', MESSAGE =
            format('the catalog is at revision %s, not %s', v_revision, p_expected);
    END IF;
    DELETE FROM catalog WHERE key = ANY (p_keys);
    INSERT INTO catalog SELECT key, value FROM unnest(p_keys, p_values) AS c (key, value) WHERE value IS NOT NULL;
    INSERT INTO catalog_changes VALUES (v_revision + 1, p_commit, p_changes);
    UPDATE catalog_state SET revision = v_revision + 1;
    -- Those that every session has applied, but for the newest. A broker that is silent for a day loads it anew.
    IF v_revision % 100 = 0 THEN
        SELECT least(v_revision - 1000, min(applied_revision)) INTO v_applied FROM brokers
            WHERE NOT ended AND expires_at > clock_timestamp() - interval '1 day';
        DELETE FROM catalog_changes WHERE revision <= v_applied;
        UPDATE catalog_state SET forgotten = greatest(forgotten, v_applied);
    END IF;
    PERFORM tell('catalog');
    RETURN v_revision + 1;
END $$;
