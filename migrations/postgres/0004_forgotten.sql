-- When nodes were forgotten last: a mediator whose memory of the fleet is older reads it anew.
ALTER TABLE fleet ADD COLUMN forgotten_rev BIGINT NOT NULL DEFAULT 0;
