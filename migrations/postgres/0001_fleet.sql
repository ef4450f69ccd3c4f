-- The fleet, its Runs and what is known about them. The twin of sqlite/0001_fleet.sql: same names, same meaning.
-- Times are UTC milliseconds. JSON is validated by the mediator and stored as text. State words are not
-- constrained, so that a new word needs no migration; "ended_at is set exactly in terminal states" is.
-- Text that is compared or sorted is COLLATE "C": byte order, the same on both engines and on every server.

CREATE TABLE fleet (
    one         BIGINT PRIMARY KEY CHECK (one = 1),
    rev         BIGINT NOT NULL DEFAULT 0,
    next_place  BIGINT NOT NULL DEFAULT 0,
    reservation TEXT,
    reaped_at   BIGINT
);
INSERT INTO fleet (one) VALUES (1);

CREATE TABLE nodes (
    node_id           TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    rev               BIGINT NOT NULL,
    label             TEXT NOT NULL DEFAULT '',
    instance          TEXT NOT NULL,
    stream            TEXT,
    advert_no         BIGINT NOT NULL,
    stopping          BOOLEAN NOT NULL DEFAULT false,
    capabilities_hash TEXT NOT NULL,
    principal         TEXT NOT NULL,
    drain             TEXT NOT NULL DEFAULT '',
    drain_reason      TEXT NOT NULL DEFAULT '',
    drain_since       BIGINT,
    policy_error      TEXT NOT NULL DEFAULT '',
    seen_at           BIGINT NOT NULL,
    expires_at        BIGINT NOT NULL,
    agent_version     TEXT NOT NULL DEFAULT '',
    capabilities      TEXT NOT NULL
);
CREATE INDEX nodes_rev_idx ON nodes (rev);

CREATE TABLE runs (
    run_id        TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    rev           BIGINT NOT NULL,
    state         TEXT COLLATE "C" NOT NULL,
    principal     TEXT NOT NULL,
    contract_hash TEXT NOT NULL,
    shape         TEXT NOT NULL,
    place         BIGINT NOT NULL,
    assigned      TEXT NOT NULL DEFAULT '[]',
    reject        TEXT,
    verdict       TEXT,
    work_id       TEXT COLLATE "C",
    starts        BIGINT NOT NULL DEFAULT 0,
    losses        BIGINT NOT NULL DEFAULT 0,
    created_at    BIGINT NOT NULL,
    ended_at      BIGINT,
    sealed_at     BIGINT,
    truncated     BOOLEAN NOT NULL DEFAULT false,
    contract      TEXT NOT NULL,
    CONSTRAINT runs_ended CHECK ((ended_at IS NOT NULL) = (state IN ('SUCCEEDED', 'FAILED')))
);
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
    node_id    TEXT COLLATE "C" PRIMARY KEY NOT NULL REFERENCES nodes (node_id),
    run_id     TEXT COLLATE "C" NOT NULL REFERENCES runs (run_id),
    not_after  BIGINT NOT NULL,
    nonce      TEXT NOT NULL,
    granted_at BIGINT NOT NULL
);

CREATE TABLE steps (
    run_id     TEXT COLLATE "C" NOT NULL REFERENCES runs (run_id),
    seq        BIGINT NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    uses       TEXT,
    kind       TEXT NOT NULL,
    state      TEXT COLLATE "C" NOT NULL,
    node_id    TEXT COLLATE "C",
    attempt    BIGINT NOT NULL DEFAULT 0,
    round      BIGINT NOT NULL DEFAULT 0,
    tries      BIGINT NOT NULL DEFAULT 0,
    needs      TEXT NOT NULL DEFAULT '[]',
    chosen     BOOLEAN NOT NULL DEFAULT false,
    picked     BOOLEAN,
    started_at BIGINT,
    ended_at   BIGINT,
    deadline   BIGINT,
    result     TEXT NOT NULL DEFAULT '{}',
    PRIMARY KEY (run_id, seq),
    CONSTRAINT steps_ended CHECK ((ended_at IS NOT NULL) = (state IN ('DONE', 'FAILED', 'SKIPPED')))
);
-- What runs now, for lists.
CREATE INDEX steps_claimed_idx ON steps (run_id) WHERE state = 'CLAIMED';

CREATE TABLE attempts (
    run_id     TEXT COLLATE "C" NOT NULL,
    seq        BIGINT NOT NULL,
    attempt    BIGINT NOT NULL,
    starts     BIGINT NOT NULL,
    node_id    TEXT COLLATE "C" NOT NULL,
    instance   TEXT NOT NULL,
    nonce      TEXT NOT NULL,
    claimed_at BIGINT NOT NULL,
    answer     TEXT,
    PRIMARY KEY (run_id, seq, attempt),
    FOREIGN KEY (run_id, seq) REFERENCES steps (run_id, seq)
);

-- Questions to people. Nothing writes them yet.
CREATE TABLE asks (
    run_id      TEXT COLLATE "C" NOT NULL,
    seq         BIGINT NOT NULL,
    round       BIGINT NOT NULL,
    question    TEXT NOT NULL,
    answerers   TEXT NOT NULL DEFAULT '[]',
    asked_at    BIGINT NOT NULL,
    deadline    BIGINT,
    answered_at BIGINT,
    answered_by TEXT,
    answer      TEXT,
    withdrawn   BOOLEAN NOT NULL DEFAULT false,
    PRIMARY KEY (run_id, seq, round),
    FOREIGN KEY (run_id, seq) REFERENCES steps (run_id, seq)
);

CREATE TABLE artifacts (
    run_id  TEXT COLLATE "C" NOT NULL,
    seq     BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    name    TEXT COLLATE "C" NOT NULL,
    sha256  TEXT NOT NULL,
    size    BIGINT NOT NULL,
    PRIMARY KEY (run_id, seq, attempt, name),
    FOREIGN KEY (run_id, seq) REFERENCES steps (run_id, seq)
);

-- Append only. `seq` is given under the fleet lock, so that a reader never misses one.
CREATE TABLE events (
    seq     BIGINT PRIMARY KEY NOT NULL,
    at      BIGINT NOT NULL,
    kind    TEXT NOT NULL,
    run_id  TEXT COLLATE "C",
    node_id TEXT COLLATE "C",
    data    TEXT NOT NULL DEFAULT '{}'
);

CREATE TABLE tokens (
    hash       TEXT COLLATE "C" PRIMARY KEY NOT NULL,
    role       TEXT NOT NULL,
    principal  TEXT NOT NULL,
    node_id    TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT
);
