-- Which messages a turn answers: asked by whoever follows a turn that another process runs.
CREATE INDEX inbox_turn ON inbox (turn_id) WHERE turn_id IS NOT NULL;
