-- The tables of version 1. The search path is the schema; functions/ has all that changes them.

CREATE TABLE cluster (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    id text NOT NULL,
    tail_current smallint NOT NULL DEFAULT 0,
    tail_turned_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Of the table that will be current next: whether it is empty, and since when nothing in it counts any more.
    tail_next_is_empty boolean NOT NULL DEFAULT true,
    tail_next_moved_at timestamptz
);

-- Sessions.

CREATE TABLE node_ids (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    next integer NOT NULL
);
INSERT INTO node_ids (next) VALUES (1);

CREATE TABLE brokers (
    node_id integer PRIMARY KEY,
    name text NOT NULL UNIQUE,
    session uuid NOT NULL UNIQUE,
    description text NOT NULL,
    lease_ms integer NOT NULL,
    expires_at timestamptz NOT NULL,
    -- Since when the lease was never interrupted.
    steady_since timestamptz NOT NULL,
    ended boolean NOT NULL DEFAULT false,
    applied_revision bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 40);

CREATE TABLE ended_sessions (
    session uuid PRIMARY KEY,
    ended_at timestamptz NOT NULL
);

CREATE TABLE tasks (
    name text PRIMARY KEY,
    session uuid NOT NULL,
    until timestamptz NOT NULL
);

-- The catalog.

CREATE TABLE catalog_state (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    revision bigint NOT NULL,
    forgotten bigint NOT NULL  -- changes up to this revision are no longer kept
);
INSERT INTO catalog_state (revision, forgotten) VALUES (0, 0);

CREATE TABLE catalog (
    key text PRIMARY KEY,
    value text NOT NULL
);

CREATE TABLE catalog_changes (
    revision bigint PRIMARY KEY,
    commit_id uuid NOT NULL,
    changes text NOT NULL
);

-- Partitions.

CREATE TABLE holders_state (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    revision bigint NOT NULL,
    forgotten bigint NOT NULL  -- deletions up to this revision are no longer kept
);
INSERT INTO holders_state (revision, forgotten) VALUES (0, 0);

-- Epoch and end are in one row, whose lock is all that appends and claims depend on. No column that an append changes
-- is in an index, so that a page with room takes the new version of the row (HOT).
CREATE TABLE partitions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic_id uuid NOT NULL,
    topic text NOT NULL,
    number integer NOT NULL,
    node_id integer NOT NULL DEFAULT -1,
    session uuid,
    epoch integer NOT NULL DEFAULT 0,
    last_epoch integer NOT NULL DEFAULT -1,  -- of the last row that was appended
    start_offset bigint NOT NULL DEFAULT 0,
    end_offset bigint NOT NULL DEFAULT 0,
    tail_start bigint NOT NULL DEFAULT 0,  -- rows of the tail below do not count
    size_bytes bigint NOT NULL DEFAULT 0,
    cleaned_offset bigint,
    wanted_node integer,
    revision bigint NOT NULL DEFAULT 0,
    UNIQUE (topic_id, number)
) WITH (fillfactor = 40);
CREATE INDEX partitions_revision ON partitions (revision);

CREATE TABLE partition_deletions (
    revision bigint NOT NULL,
    topic_id uuid NOT NULL,
    topic text NOT NULL,
    number integer NOT NULL,
    deleted_at timestamptz NOT NULL
);
CREATE INDEX partition_deletions_revision ON partition_deletions (revision);

CREATE TABLE epochs (
    partition_id bigint NOT NULL,
    epoch integer NOT NULL,
    start_offset bigint NOT NULL,
    PRIMARY KEY (partition_id, epoch)
);

CREATE TABLE snapshots (
    partition_id bigint NOT NULL,
    "offset" bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (partition_id, "offset")
);
ALTER TABLE snapshots ALTER COLUMN data SET STORAGE EXTERNAL;

-- The tail: four tables in a ring, of which the oldest is truncated, so that nothing has to be vacuumed.

CREATE TABLE tail (
    slot smallint NOT NULL,
    partition_id bigint NOT NULL,
    base_offset bigint NOT NULL,
    end_offset bigint NOT NULL,
    epoch integer NOT NULL,
    flush uuid NOT NULL,
    object_id bigint,
    position bigint NOT NULL,
    size_bytes bigint NOT NULL,
    max_timestamp_ms bigint NOT NULL,
    written_ms bigint NOT NULL,
    headers bytea NOT NULL,
    aborted bytea NOT NULL,
    data bytea,
    PRIMARY KEY (partition_id, end_offset, slot)
) PARTITION BY LIST (slot);
CREATE INDEX tail_object ON tail (object_id) WHERE object_id IS NOT NULL;
CREATE TABLE tail_0 PARTITION OF tail FOR VALUES IN (0);
CREATE TABLE tail_1 PARTITION OF tail FOR VALUES IN (1);
CREATE TABLE tail_2 PARTITION OF tail FOR VALUES IN (2);
CREATE TABLE tail_3 PARTITION OF tail FOR VALUES IN (3);
-- Batches are compressed already, or not worth it.
ALTER TABLE tail_0 ALTER COLUMN data SET STORAGE EXTERNAL, ALTER COLUMN headers SET STORAGE EXTERNAL;
ALTER TABLE tail_1 ALTER COLUMN data SET STORAGE EXTERNAL, ALTER COLUMN headers SET STORAGE EXTERNAL;
ALTER TABLE tail_2 ALTER COLUMN data SET STORAGE EXTERNAL, ALTER COLUMN headers SET STORAGE EXTERNAL;
ALTER TABLE tail_3 ALTER COLUMN data SET STORAGE EXTERNAL, ALTER COLUMN headers SET STORAGE EXTERNAL;

CREATE TABLE segments (
    partition_id bigint NOT NULL,
    base_offset bigint NOT NULL,
    end_offset bigint NOT NULL,
    object_id bigint,
    position bigint NOT NULL,
    size_bytes bigint NOT NULL,
    max_timestamp_ms bigint NOT NULL,
    written_ms bigint NOT NULL,
    marks bytea NOT NULL,
    aborted bytea NOT NULL,
    data bytea,
    PRIMARY KEY (partition_id, end_offset)
);
CREATE INDEX segments_object ON segments (object_id) WHERE object_id IS NOT NULL;
ALTER TABLE segments ALTER COLUMN data SET STORAGE EXTERNAL;

-- Objects.

CREATE TABLE objects (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text NOT NULL,
    session uuid NOT NULL,
    state text NOT NULL CHECK (state IN ('reserved', 'live', 'dead', 'deleted')),
    size_bytes bigint NOT NULL DEFAULT 0,
    since timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX objects_reserved ON objects (session) WHERE state = 'reserved';
CREATE INDEX objects_gone ON objects (since) WHERE state IN ('dead', 'deleted');

-- Objects that a row referred to which is gone: the collection looks whether there are others.
CREATE TABLE released_objects (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    object_id bigint NOT NULL
);
