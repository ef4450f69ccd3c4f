-- Questions to people, by the attempt that asked: a step asks again in every pass of a loop and after its Run has
-- started over. Nothing has written the earlier table. The twin of sqlite/0002_asks.sql.

DROP TABLE asks;
CREATE TABLE asks (
    run_id      TEXT COLLATE "C" NOT NULL,
    seq         BIGINT NOT NULL,
    attempt     BIGINT NOT NULL,
    question    TEXT NOT NULL,
    answerers   TEXT NOT NULL DEFAULT '[]',
    asked_at    BIGINT NOT NULL,
    deadline    BIGINT,
    answered_at BIGINT,
    answered_by TEXT,
    answer      TEXT,
    withdrawn   BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, seq, attempt),
    FOREIGN KEY (run_id, seq) REFERENCES steps (run_id, seq)
);
-- What is still open.
CREATE INDEX asks_open_idx ON asks (asked_at) WHERE answered_at IS NULL AND withdrawn = 0;
-- Steps that move only by an answer or by a node that comes free.
CREATE INDEX steps_waiting_idx ON steps (run_id) WHERE state IN ('WAITING', 'ASKED');
