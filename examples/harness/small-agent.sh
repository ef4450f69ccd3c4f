#!/bin/sh
# The smallest harness there can be, to copy and to put a real agent in: it "works" through the prompt line by line, one
# line a turn, and answers with what it saw. The node's agent sets
#   PROMPT_FILE  a file with the prompt, names filled in (it comes on stdin as well)
#   SCHEMA_FILE  a file with the JSON Schema of the answer, only if the step has one
#   ANSWER_FILE  where the answer goes
#   MAX_TURNS    how many turns it may take, only if the step says so
# It runs in the Run's folder with the step's timeout; what it prints is the step's log; an exit code other than 0 is the
# step's. $IN, $OUT, $ATTEMPT and the like are set as for any step.
set -eu

most=${MAX_TURNS:-1000000}
turns=0 words=0
while [ "$turns" -lt "$most" ] && { read -r line || [ -n "$line" ]; }; do
    turns=$((turns + 1))
    words=$((words + $(printf '%s\n' "$line" | wc -w)))
    echo "turn $turns: $line"
done < "$PROMPT_FILE"

if [ -n "${SCHEMA_FILE:-}" ]; then
    # A real agent is given this; whether the answer fits is looked at by the mediator, not here.
    echo "the answer must fit $(cat "$SCHEMA_FILE")"
fi

# Written whole, then moved to its place: an agent that is killed leaves no half answer.
printf '{"summary": "read %d words", "turns": %d}\n' "$words" "$turns" > "$ANSWER_FILE.new"
mv "$ANSWER_FILE.new" "$ANSWER_FILE"
