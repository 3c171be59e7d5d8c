-- Messages are written anew, once, with room for what is to come: a checksum, who said it, the id that
-- another program has for it, and roles that are not known yet. Small columns stand before the long
-- ones, so that a row's time is read without its text.
CREATE TABLE messages_new (
  id                    INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id            TEXT NOT NULL REFERENCES sessions (id),
  seq                   INTEGER NOT NULL,
  at                    INTEGER NOT NULL,
  role                  TEXT NOT NULL,
  turn_id               TEXT,
  checksum              INTEGER,
  author                TEXT,
  external_id           TEXT,
  tool_call_id          TEXT,
  tool_name             TEXT,
  is_error              INTEGER NOT NULL DEFAULT 0 CHECK (is_error IN (0, 1)),
  model                 TEXT,
  input_tokens          INTEGER,
  output_tokens         INTEGER,
  cache_read_tokens     INTEGER,
  cache_creation_tokens INTEGER,
  cost                  INTEGER,
  api_calls             INTEGER,
  content               TEXT NOT NULL,
  parts                 TEXT,
  tool_calls            TEXT
) STRICT;

-- Each row leaves the old table as it comes into the new one, so that the file does not grow: pages
-- that become free are used at once.
DROP TRIGGER messages_ad;
CREATE TRIGGER messages_moved AFTER INSERT ON messages_new BEGIN
  DELETE FROM messages WHERE id = new.id;
END;
-- clew_checksum is a function of clew's (store/rows.py); it also counts how far this is.
INSERT INTO messages_new (id, session_id, seq, at, role, turn_id, checksum, tool_call_id, tool_name,
    is_error, model, input_tokens, output_tokens, cache_read_tokens, cache_creation_tokens, cost,
    api_calls, content, parts, tool_calls)
  SELECT id, session_id, seq, at, role, turn_id,
    clew_checksum(CAST(turn_id AS BLOB), CAST(role AS BLOB), CAST(content AS BLOB),
      CAST(parts AS BLOB), CAST(tool_call_id AS BLOB), CAST(tool_name AS BLOB),
      CAST(tool_calls AS BLOB), CAST(model AS BLOB), NULL),
    tool_call_id, tool_name, is_error, model, input_tokens, output_tokens, cache_read_tokens,
    cache_creation_tokens, cost, api_calls, content, parts, tool_calls
  FROM messages ORDER BY id;
DROP TRIGGER messages_moved;
DELETE FROM sqlite_sequence WHERE name = 'messages_new';
INSERT INTO sqlite_sequence (name, seq)
  SELECT 'messages_new', seq FROM sqlite_sequence WHERE name = 'messages';
DROP VIEW messages_indexed;
DROP VIEW v_messages;
DROP TABLE messages;
ALTER TABLE messages_new RENAME TO messages;
CREATE UNIQUE INDEX messages_thread ON messages (session_id, seq);
CREATE UNIQUE INDEX messages_external ON messages (session_id, external_id)
  WHERE external_id IS NOT NULL;

-- What the index sees of a message: its first 65,536 characters.
CREATE VIEW messages_indexed AS SELECT id, substr(content, 1, 65536) AS content FROM messages;
CREATE VIEW v_messages AS
  SELECT m.session_id, m.seq, datetime(m.at / 1000, 'unixepoch') AS at, m.role,
         coalesce(m.tool_name, '') AS tool, m.content
  FROM messages m;

CREATE TRIGGER messages_ai AFTER INSERT ON messages BEGIN
  INSERT INTO messages_fts (rowid, content) VALUES (new.id, substr(new.content, 1, 65536));
  INSERT OR IGNORE INTO spaceless_queue (message_id) SELECT new.id
    WHERE length(new.content) < length(CAST(new.content AS BLOB))
      AND substr(new.content, 1, 65536) GLOB '*[ก-ฺเ-๎๐-๙ກ-ໟက-၉ၐ-ႝᄀ-ᇿក-៓ៗៜ៝០-៩⺀-⿕々-〇〡-〯〱-〵〸-〼ぁ-゚ゝ-ゟァ-ヺー-ヿㄅ-ㄯㄱ-ㆎㆠ-ㆿㇰ-ㇿ㐀-䶿一-鿿ꥠ-ꥼꧠ-ꧾꩠ-ꩶꩺ-ꩿ가-ퟻ豈-﫿𚿰-𛅯𠀀-𿿿〶゛゜㆐-㆟㈀-㏿ｦ-ￜ🈀-🉥]*';
END;
CREATE TRIGGER messages_ad AFTER DELETE ON messages BEGIN
  INSERT INTO messages_fts (messages_fts, rowid, content)
    VALUES ('delete', old.id, substr(old.content, 1, 65536));
  INSERT OR IGNORE INTO spaceless_queue (message_id) SELECT old.id
    WHERE length(old.content) < length(CAST(old.content AS BLOB))
      AND substr(old.content, 1, 65536) GLOB '*[ก-ฺเ-๎๐-๙ກ-ໟက-၉ၐ-ႝᄀ-ᇿក-៓ៗៜ៝០-៩⺀-⿕々-〇〡-〯〱-〵〸-〼ぁ-゚ゝ-ゟァ-ヺー-ヿㄅ-ㄯㄱ-ㆎㆠ-ㆿㇰ-ㇿ㐀-䶿一-鿿ꥠ-ꥼꧠ-ꧾꩠ-ꩶꩺ-ꩿ가-ퟻ豈-﫿𚿰-𛅯𠀀-𿿿〶゛゜㆐-㆟㈀-㏿ｦ-ￜ🈀-🉥]*';
END;
CREATE TRIGGER messages_au AFTER UPDATE OF id, content ON messages BEGIN
  INSERT INTO messages_fts (messages_fts, rowid, content)
    VALUES ('delete', old.id, substr(old.content, 1, 65536));
  INSERT INTO messages_fts (rowid, content) VALUES (new.id, substr(new.content, 1, 65536));
  INSERT OR IGNORE INTO spaceless_queue (message_id) VALUES (old.id), (new.id);
END;
-- A message that is changed by hand has no checksum any more: that is no damage.
CREATE TRIGGER messages_changed AFTER UPDATE OF turn_id, role, content, parts, tool_call_id,
    tool_name, tool_calls, model, author ON messages WHEN new.checksum IS old.checksum BEGIN
  UPDATE messages SET checksum = NULL WHERE id = new.id;
END;

-- A turn that a session passes over, from one step of its undoing and redoing to another. The steps
-- of a session are counted, so that a fork knows which of its parent's marks were there when it was
-- made. What a session says of a turn itself goes before what its parent says: a mark that ended
-- where it began brings back what the parent had undone.
ALTER TABLE sessions ADD COLUMN undo_steps INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN forked_at_step INTEGER;
CREATE TABLE undone_new (
  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  turn_id    TEXT NOT NULL,
  begun      INTEGER NOT NULL,
  ended      INTEGER,
  undone_at  INTEGER NOT NULL,
  PRIMARY KEY (session_id, turn_id, begun)
) STRICT, WITHOUT ROWID;
INSERT INTO undone_new (session_id, turn_id, begun, undone_at)
  SELECT session_id, turn_id, 1, undone_at FROM undone;
UPDATE sessions SET undo_steps = 1 WHERE id IN (SELECT session_id FROM undone);
DROP TABLE undone;
ALTER TABLE undone_new RENAME TO undone;

-- When a message was taken by a turn, or dropped; its place in the order of its channel, if that
-- has one; and up to where each channel's messages were removed.
ALTER TABLE inbox ADD COLUMN settled_at INTEGER;
ALTER TABLE inbox ADD COLUMN position INTEGER;
UPDATE inbox SET settled_at = received_at WHERE status IN ('done', 'dropped');
CREATE TABLE inbox_cursors (
  channel  TEXT NOT NULL,
  account  TEXT NOT NULL,
  position INTEGER NOT NULL,
  PRIMARY KEY (channel, account)
) STRICT, WITHOUT ROWID;

-- One index for each way in which the two boxes are asked, of those rows alone that can be meant.
DROP INDEX inbox_open;
CREATE INDEX inbox_queued ON inbox (status) WHERE status = 'queued';
CREATE INDEX inbox_open ON inbox (session_id) WHERE status IN ('queued', 'claimed');
CREATE INDEX inbox_key ON inbox (key) WHERE status IN ('queued', 'claimed');
CREATE INDEX inbox_claimed ON inbox (claimant) WHERE status = 'claimed';
CREATE INDEX inbox_settled ON inbox (settled_at) WHERE settled_at IS NOT NULL;
DROP INDEX outbox_open;
CREATE INDEX outbox_line ON outbox (key) WHERE status IN ('pending', 'sending');
CREATE INDEX outbox_due ON outbox (channel, due_at) WHERE status = 'pending';
CREATE INDEX outbox_sending ON outbox (claimant) WHERE status = 'sending';
CREATE INDEX outbox_status ON outbox (status);
