//! Steps: each kind, and what all have in common.

use super::{Decoder, Node, Path, Read, Value};
use crate::contract::{
    Acquire, Agent, Ask, Dispatch, Input, Loop, Require, Step, Targets, Until, step::KEYS, tree::Node as Tree,
};

impl Decoder<'_, '_> {
    pub(super) fn step(&mut self, node: &Node, path: &Path<'_>, at: usize) -> Read<Step> {
        let told = self.problems.count();
        let fields = self.fields(node, path, KEYS)?;
        let misspelled = self.problems.count() > told;
        let id = self.required(&fields, "id", Self::parsed);
        let uses = self.optional(&fields, "uses", Self::parsed);
        let run = self.optional(&fields, "run", Self::argv);
        let agent = self.optional(&fields, "agent", Self::agent);
        let acquire = self.optional(&fields, "acquire", Self::acquire);
        let ask = self.optional(&fields, "ask", Self::ask);
        let needs = self.optional(&fields, "needs", |it, node, path| it.list(node, path, Self::parsed));
        let env = self.or_default(&fields, "env", |it, node, path| it.dict(node, path, Self::text));
        let input = self.optional(&fields, "in", |it, node, path| {
            let fields = it.fields(node, path, &["from"])?;
            let from = it.required(&fields, "from", |it, node, path| it.list(node, path, Self::text))?;
            Some(Input { from })
        });
        let out = self.or_default(&fields, "out", |it, node, path| it.list(node, path, Self::text));
        let timeout = self.optional(&fields, "timeout", Self::parsed);
        let release = self.or_default(&fields, "release", |it, node, path| it.list(node, path, Self::parsed));
        let dispatch = self.optional(&fields, "dispatch", Self::dispatch);
        let repeat = self.optional(&fields, "loop", Self::repeat);
        let max_attempts = self.optional(&fields, "max_attempts", Self::number);
        let keep = self.or_default(&fields, "keep", Self::flag);
        let kind = [id.is_none(), uses.is_none(), run.is_none(), agent.is_none(), acquire.is_none(), ask.is_none()];
        if misspelled || std::mem::take(&mut self.gaps.texts) || kind.contains(&true) {
            self.gaps.steps.insert(at);
        }
        self.gaps.env |= env.is_none();
        self.gaps.roles |= acquire.is_none();
        // Whom it waits for, what it leaves and who goes on: other steps are judged by that.
        let others = [id.is_none(), agent.is_none(), acquire.is_none(), ask.is_none(), needs.is_none(), out.is_none()];
        self.gaps.graph |= others.contains(&true) || release.is_none() || dispatch.is_none() || repeat.is_none();
        Some(Step {
            id: match id {
                Some(id) => id,
                // Keeps the place of the others; nobody asks for it by this name.
                None => format!("step-{at}").parse().ok()?,
            },
            uses: uses.flatten(),
            run: run.flatten(),
            agent: agent.flatten(),
            acquire: acquire.flatten(),
            ask: ask.flatten(),
            needs: needs.flatten(),
            env: env.unwrap_or_default(),
            input: input.flatten(),
            out: out.unwrap_or_default(),
            timeout: timeout.flatten(),
            release: release.unwrap_or_default(),
            dispatch: dispatch.flatten(),
            repeat: repeat.flatten(),
            max_attempts: max_attempts.flatten().unwrap_or(1),
            keep: keep.unwrap_or_default(),
        })
    }

    fn agent(&mut self, node: &Node, path: &Path<'_>) -> Read<Agent> {
        let fields = self.fields(node, path, &["harness", "prompt", "schema", "max_turns"])?;
        let harness = self.optional(&fields, "harness", Self::text);
        let prompt = self.required(&fields, "prompt", Self::text);
        let schema = self.optional(&fields, "schema", Self::json_schema);
        let max_turns = self.optional(&fields, "max_turns", Self::number);
        self.gaps.texts |= harness.is_none() || prompt.is_none() || max_turns.is_none();
        Some(Agent {
            harness: harness.flatten().unwrap_or_else(|| "default".to_owned()),
            prompt: prompt.unwrap_or_default(),
            schema: schema.flatten(),
            max_turns: max_turns.flatten(),
        })
    }

    fn acquire(&mut self, node: &Node, path: &Path<'_>) -> Read<Acquire> {
        let fields = self.fields(node, path, &["as", "capability", "count", "attrs", "wait"])?;
        let wanted = self.wanted(&fields);
        let wait = self.optional(&fields, "wait", Self::flag)?.unwrap_or(true);
        let Require { role, capability, count, attrs, apart: _ } = wanted?;
        Some(Acquire { role, capability, count, attrs, wait })
    }

    fn ask(&mut self, node: &Node, path: &Path<'_>) -> Read<Ask> {
        let fields = self.fields(node, path, &["question", "form", "answerers"])?;
        let question = self.required(&fields, "question", Self::text);
        let form = self.optional(&fields, "form", Self::json_schema);
        let answerers = self.or_default(&fields, "answerers", |it, node, path| it.list(node, path, Self::parsed));
        self.gaps.texts |= question.is_none();
        Some(Ask {
            question: question.unwrap_or_default(),
            form: form.flatten(),
            answerers: answerers.unwrap_or_default().into_iter().collect(),
        })
    }

    fn dispatch(&mut self, node: &Node, path: &Path<'_>) -> Read<Dispatch> {
        let fields = self.fields(node, path, &["from", "to"])?;
        let from = self.required(&fields, "from", Self::text);
        let to = self.required(&fields, "to", |it, node, path| match &node.value {
            Value::Map(_) => it.dict(node, path, Self::parsed).map(Targets::Values),
            _ => it.list(node, path, Self::parsed).map(Targets::Steps),
        });
        Some(Dispatch { from: from?, to: to? })
    }

    fn repeat(&mut self, node: &Node, path: &Path<'_>) -> Read<Loop> {
        let fields = self.fields(node, path, &["back_to", "max", "until"])?;
        let back_to = self.required(&fields, "back_to", Self::parsed);
        let max = self.required(&fields, "max", Self::number);
        let until = self.optional(&fields, "until", |it, node, path| {
            let fields = it.fields(node, path, &["exit_code", "produced"])?;
            let exit_code = it.optional(&fields, "exit_code", Self::number);
            let produced = it.optional(&fields, "produced", |it, node, path| it.list(node, path, Self::text));
            Some(Until { exit_code: exit_code?, produced: produced? })
        });
        Some(Loop { back_to: back_to?, max: max?, until: until? })
    }

    /// A JSON Schema is not read here, only taken whole: a map, or true or false.
    fn json_schema(&mut self, node: &Node, path: &Path<'_>) -> Read<serde_json::Value> {
        match (&node.value, Tree::to_json(node, self.text)) {
            (Value::Map(_) | Value::Bool(_), Some(json)) => Some(json),
            (Value::Map(_), None) => self.refuse(node, path, "holds a number that JSON cannot say"),
            _ => self.wrong(node, path, "a JSON Schema, which is a map"),
        }
    }
}
