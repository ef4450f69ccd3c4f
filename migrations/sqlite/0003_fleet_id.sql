-- Which fleet this is. A directory of Records carries the same word, so that neither is used with another's.
ALTER TABLE fleet ADD COLUMN fleet_id TEXT NOT NULL DEFAULT '';
