-- The fleet, its Runs and what is known about them. The twin of postgres/0001_fleet.sql: same names, same meaning.
-- Times are UTC milliseconds. JSON is validated by the mediator and stored as text. State words are not
-- constrained, so that a new word needs no migration; "ended_at is set exactly in terminal states" is.
-- STRICT: an engine that would store text in a number column would hide a bad row until it is read.

CREATE TABLE fleet (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    rev         INTEGER NOT NULL DEFAULT 0,
    next_place  INTEGER NOT NULL DEFAULT 0,
    reservation TEXT,
    reaped_at   INTEGER
) STRICT;
INSERT INTO fleet (one) VALUES (1);

CREATE TABLE nodes (
    node_id           TEXT PRIMARY KEY NOT NULL,
    rev               INTEGER NOT NULL,
    label             TEXT NOT NULL DEFAULT '',
    instance          TEXT NOT NULL,
    stream            TEXT,
    advert_no         INTEGER NOT NULL,
    stopping          INTEGER NOT NULL DEFAULT 0,
    capabilities_hash TEXT NOT NULL,
    principal         TEXT NOT NULL,
    drain             TEXT NOT NULL DEFAULT '',
    drain_reason      TEXT NOT NULL DEFAULT '',
    drain_since       INTEGER,
    policy_error      TEXT NOT NULL DEFAULT '',
    seen_at           INTEGER NOT NULL,
    expires_at        INTEGER NOT NULL,
    agent_version     TEXT NOT NULL DEFAULT '',
    capabilities      TEXT NOT NULL
) STRICT;
CREATE INDEX nodes_rev_idx ON nodes (rev);

CREATE TABLE runs (
    run_id        TEXT PRIMARY KEY NOT NULL,
    rev           INTEGER NOT NULL,
    state         TEXT NOT NULL,
    principal     TEXT NOT NULL,
    contract_hash TEXT NOT NULL,
    shape         TEXT NOT NULL,
    place         INTEGER NOT NULL,
    assigned      TEXT NOT NULL DEFAULT '[]',
    reject        TEXT,
    verdict       TEXT,
    work_id       TEXT,
    starts        INTEGER NOT NULL DEFAULT 0,
    losses        INTEGER NOT NULL DEFAULT 0,
    created_at    INTEGER NOT NULL,
    ended_at      INTEGER,
    sealed_at     INTEGER,
    truncated     INTEGER NOT NULL DEFAULT 0,
    -- Last: a long contract must not stand between the row's head and the columns that lists read.
    contract      TEXT NOT NULL,
    CONSTRAINT runs_ended CHECK ((ended_at IS NOT NULL) = (state IN ('SUCCEEDED', 'FAILED')))
) STRICT;
-- What another writer changed.
CREATE INDEX runs_rev_idx ON runs (rev);
-- Lists, newest first.
CREATE INDEX runs_created_idx ON runs (created_at DESC, run_id);
CREATE INDEX runs_state_idx ON runs (state, created_at DESC, run_id);
CREATE INDEX runs_work_idx ON runs (work_id, created_at);
-- The line.
CREATE INDEX runs_open_idx ON runs (state, place) WHERE state IN ('QUEUED', 'RUNNING');
-- The outbox of the Record.
CREATE INDEX runs_unsealed_idx ON runs (ended_at) WHERE ended_at IS NOT NULL AND sealed_at IS NULL;

CREATE TABLE leases (
    node_id    TEXT PRIMARY KEY NOT NULL REFERENCES nodes (node_id),
    run_id     TEXT NOT NULL REFERENCES runs (run_id),
    not_after  INTEGER NOT NULL,
    nonce      TEXT NOT NULL,
    granted_at INTEGER NOT NULL
) STRICT;

CREATE TABLE steps (
    run_id     TEXT NOT NULL REFERENCES runs (run_id),
    seq        INTEGER NOT NULL,
    name       TEXT NOT NULL,
    uses       TEXT,
    kind       TEXT NOT NULL,
    state      TEXT NOT NULL,
    node_id    TEXT,
    attempt    INTEGER NOT NULL DEFAULT 0,
    round      INTEGER NOT NULL DEFAULT 0,
    tries      INTEGER NOT NULL DEFAULT 0,
    needs      TEXT NOT NULL DEFAULT '[]',
    chosen     INTEGER NOT NULL DEFAULT 0,
    picked     INTEGER,
    started_at INTEGER,
    ended_at   INTEGER,
    deadline   INTEGER,
    result     TEXT NOT NULL DEFAULT '{}',
    PRIMARY KEY (run_id, seq),
    CONSTRAINT steps_ended CHECK ((ended_at IS NOT NULL) = (state IN ('DONE', 'FAILED', 'SKIPPED')))
) STRICT, WITHOUT ROWID;
-- What runs now, for lists.
CREATE INDEX steps_claimed_idx ON steps (run_id) WHERE state = 'CLAIMED';

CREATE TABLE attempts (
    run_id     TEXT NOT NULL,
    seq        INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    starts     INTEGER NOT NULL,
    node_id    TEXT NOT NULL,
    instance   TEXT NOT NULL,
    nonce      TEXT NOT NULL,
    claimed_at INTEGER NOT NULL,
    answer     TEXT,
    PRIMARY KEY (run_id, seq, attempt),
    FOREIGN KEY (run_id, seq) REFERENCES steps (run_id, seq)
) STRICT, WITHOUT ROWID;

-- Questions to people. Nothing writes them yet.
CREATE TABLE asks (
    run_id      TEXT NOT NULL,
    seq         INTEGER NOT NULL,
    round       INTEGER NOT NULL,
    question    TEXT NOT NULL,
    answerers   TEXT NOT NULL DEFAULT '[]',
    asked_at    INTEGER NOT NULL,
    deadline    INTEGER,
    answered_at INTEGER,
    answered_by TEXT,
    answer      TEXT,
    withdrawn   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, seq, round),
    FOREIGN KEY (run_id, seq) REFERENCES steps (run_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE artifacts (
    run_id  TEXT NOT NULL,
    seq     INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    name    TEXT NOT NULL,
    sha256  TEXT NOT NULL,
    size    INTEGER NOT NULL,
    PRIMARY KEY (run_id, seq, attempt, name),
    FOREIGN KEY (run_id, seq) REFERENCES steps (run_id, seq)
) STRICT, WITHOUT ROWID;

-- Append only. `seq` is given under the fleet lock, so that a reader never misses one.
CREATE TABLE events (
    seq     INTEGER PRIMARY KEY NOT NULL,
    at      INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    run_id  TEXT,
    node_id TEXT,
    data    TEXT NOT NULL DEFAULT '{}'
) STRICT;

CREATE TABLE tokens (
    hash       TEXT PRIMARY KEY NOT NULL,
    role       TEXT NOT NULL,
    principal  TEXT NOT NULL,
    node_id    TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT;
