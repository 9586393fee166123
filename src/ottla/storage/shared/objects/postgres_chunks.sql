-- Objects as rows, where there is no other object store. Executed with the schema first in search_path, and pg_temp
-- last; may be executed again. Brokers may SELECT from the tables and EXECUTE the functions.

CREATE TABLE IF NOT EXISTS chunked_objects (
    key text COLLATE "C" PRIMARY KEY,
    size_bytes bigint NOT NULL,
    modified timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Chunk n has the bytes from n * 1048576 on.
CREATE TABLE IF NOT EXISTS object_chunks (
    key text COLLATE "C" NOT NULL REFERENCES chunked_objects ON DELETE CASCADE,
    number integer NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (key, number)
);

-- Batches are compressed by their producers; a part of a row that is not compressed again can be read by itself.
ALTER TABLE object_chunks ALTER COLUMN data SET STORAGE EXTERNAL;

-- Adds chunks from a number on. Several calls for one object are one transaction, so that it appears whole.
CREATE OR REPLACE FUNCTION put_object_chunks(
    object_key text, object_bytes bigint, first_number integer, chunks bytea[]
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO chunked_objects (key, size_bytes) VALUES (object_key, object_bytes)
    ON CONFLICT (key) DO UPDATE SET size_bytes = excluded.size_bytes, modified = clock_timestamp();
    INSERT INTO object_chunks (key, number, data)
    SELECT object_key, first_number + ordinal - 1, chunk
    FROM unnest(chunks) WITH ORDINALITY AS given (chunk, ordinal)
    ON CONFLICT (key, number) DO UPDATE SET data = excluded.data;
END
$$;

CREATE OR REPLACE FUNCTION delete_chunked_objects(object_keys text[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    DELETE FROM chunked_objects WHERE key = ANY (object_keys);
$$;
