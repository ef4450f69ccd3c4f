//! From values to the types of the grammar.
//!
//! Written out rather than derived, because a derived reader stops at the first fault and knows no path. It
//! goes on after each fault, so that an author sees all of them at once. [`super::schema`] is derived from the
//! types; a test holds the keys known here against it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    str::FromStr,
};

mod argv;
mod step;

use super::{
    AnyOf, AtLeast, AttrMatch, AttrValue, Condition, Contract, OnDrain, OnLost, Require, WhenUnmatched, Work,
    problem::{Path, Problems, cut},
    tree::{Node, Value, position},
};

/// `None` says that a problem was noted.
type Read<T> = Option<T>;

/// The text, and what is wrong with it.
pub(super) struct Decoder<'d, 't> {
    pub(super) text: &'t str,
    pub(super) problems: &'d mut Problems<'t>,
    pub(super) gaps: Gaps,
}

/// What could not be read. Rules that look at it are not asked: what they would say may follow from the gap only.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// `requires` or an `acquire`.
    pub(super) roles: bool,
    /// Any `env`.
    pub(super) env: bool,
    /// `success_when`.
    pub(super) conditions: bool,
    /// The names of steps, what they do, or what they have to do with each other.
    pub(super) graph: bool,
    /// What these steps do, by position.
    pub(super) steps: BTreeSet<usize>,
    /// A text of the step that is being read.
    texts: bool,
}

/// The entries of a map with fixed keys.
struct Fields<'n, 'p> {
    node: &'n Node,
    path: &'p Path<'p>,
}

impl Decoder<'_, '_> {
    /// As much of it as can be read. What cannot is noted, and left out as [`Gaps`] says.
    pub(super) fn contract(&mut self, node: &Node) -> Read<Contract> {
        let fields = self.fields(node, &Path::ROOT, super::CONTRACT_KEYS)?;
        let run_id = self.optional(&fields, "run_id", Self::parsed);
        let work = self.optional(&fields, "work", Self::work);
        let env = self.or_default(&fields, "env", |it, node, path| it.dict(node, path, Self::text));
        self.gaps.env |= env.is_none();
        let requires = self.required(&fields, "requires", |it, node, path| it.list(node, path, Self::require));
        self.gaps.roles |= requires.is_none();
        let mut positions = 0..;
        let steps = self.required(&fields, "steps", |it, node, path| {
            it.list(node, path, |it, node, path| it.step(node, path, positions.next().unwrap_or_default()))
        });
        self.gaps.graph |= steps.is_none();
        let success_when =
            self.or_default(&fields, "success_when", |it, node, path| it.list(node, path, Self::condition));
        self.gaps.conditions |= success_when.is_none();
        let on_lost = self.or_default(&fields, "on_lost", |it, node, path| {
            let fields = it.fields(node, path, &["retry"])?;
            Some(OnLost { retry: it.or_default(&fields, "retry", Self::number)? })
        });
        let on_drain = self.or_default(&fields, "on_drain", |it, node, path| {
            it.word(node, path, &[("close", OnDrain::Close), ("requeue", OnDrain::Requeue)])
        });
        let when_unmatched = self.or_default(&fields, "when_unmatched", |it, node, path| {
            it.word(node, path, &[("reject", WhenUnmatched::Reject), ("queue", WhenUnmatched::Queue)])
        });
        Some(Contract {
            run_id: run_id.flatten(),
            work: work.flatten(),
            env: env.unwrap_or_default(),
            requires: requires.unwrap_or_default(),
            steps: steps.unwrap_or_default(),
            success_when: success_when.unwrap_or_default(),
            on_lost: on_lost.unwrap_or_default(),
            on_drain: on_drain.unwrap_or_default(),
            when_unmatched: when_unmatched.unwrap_or_default(),
        })
    }

    fn work(&mut self, node: &Node, path: &Path<'_>) -> Read<Work> {
        let fields = self.fields(node, path, &["system", "change_id"])?;
        let system = self.required(&fields, "system", Self::text);
        let change_id = self.required(&fields, "change_id", Self::text);
        Some(Work { system: system?, change_id: change_id? })
    }

    fn require(&mut self, node: &Node, path: &Path<'_>) -> Read<Require> {
        let fields = self.fields(node, path, &["as", "capability", "count", "attrs", "apart"])?;
        let wanted = self.wanted(&fields);
        let apart = self.or_default(&fields, "apart", Self::flag);
        Some(Require { apart: apart?, ..wanted? })
    }

    /// What a requirement and an acquire have in common.
    fn wanted(&mut self, fields: &Fields<'_, '_>) -> Read<Require> {
        let role = self.required(fields, "as", Self::parsed);
        let capability = self.required(fields, "capability", Self::text);
        let count = self.optional(fields, "count", Self::number);
        let attrs = self.or_default(fields, "attrs", |it, node, path| it.dict(node, path, Self::attr_match));
        let (role, capability) = (role?, capability?);
        Some(Require { role, capability, count: count?.unwrap_or(1), attrs: attrs?, apart: false })
    }

    fn attr_match(&mut self, node: &Node, path: &Path<'_>) -> Read<AttrMatch> {
        let Value::Map(_) = node.value else { return self.attr_value(node, path).map(AttrMatch::Equals) };
        let fields = self.fields(node, path, &["min", "any"])?;
        let min = self.optional(&fields, "min", Self::number::<i64>)?;
        let any = self.optional(&fields, "any", |it, node, path| it.list(node, path, Self::attr_value))?;
        match (min, any) {
            (Some(min), None) => Some(AttrMatch::Min(AtLeast { min })),
            (None, Some(any)) => Some(AttrMatch::Any(AnyOf { any })),
            _ => self.refuse(node, path, "write a value, {min: NUMBER} or {any: [VALUE, ...]}"),
        }
    }

    fn attr_value(&mut self, node: &Node, path: &Path<'_>) -> Read<AttrValue> {
        match &node.value {
            Value::Text(text) => Some(AttrValue::Text(text.clone())),
            Value::Int(number) if self.is_plain(node) => Some(AttrValue::Number(*number)),
            Value::Bool(flag) if self.is_plain(node) => Some(AttrValue::Flag(*flag)),
            Value::Bool(_) if self.is_letter(node) => Some(AttrValue::Text(node.spelling(self.text).to_owned())),
            _ => self.wrong(node, path, "text, a whole number, true or false"),
        }
    }

    fn condition(&mut self, node: &Node, path: &Path<'_>) -> Read<Condition> {
        let fields = self.fields(node, path, &["step", "exit_code", "produced", "within_attempts", "required"])?;
        let step = self.required(&fields, "step", Self::parsed);
        let exit_code = self.optional(&fields, "exit_code", Self::number);
        let produced = self.optional(&fields, "produced", |it, node, path| it.list(node, path, Self::text));
        let within_attempts = self.optional(&fields, "within_attempts", Self::number);
        let required = self.or_default(&fields, "required", Self::flag);
        Some(Condition {
            step: step?,
            exit_code: exit_code?,
            produced: produced?,
            within_attempts: within_attempts?,
            required: required?,
        })
    }
}

/// The parts that every rule above is made of.
impl Decoder<'_, '_> {
    fn refuse<T>(&mut self, node: &Node, path: &Path<'_>, message: impl Into<String>) -> Read<T> {
        self.problems.at(path, node.at, message);
        None
    }

    /// Not what is wanted here: says what YAML takes it for, and how to write it.
    fn wrong<T>(&mut self, node: &Node, path: &Path<'_>, wanted: &str) -> Read<T> {
        let spelling = cut(node.spelling(self.text));
        let is = match node.value {
            Value::Null if spelling.is_empty() => "it is empty here".to_owned(),
            Value::Null => format!("{spelling} is YAML for nothing"),
            Value::Bool(_) => format!("{spelling} is YAML for a truth value"),
            Value::Int(_) | Value::Float => format!("{spelling} is YAML for a number"),
            Value::Text(_) => format!("{spelling} is text"),
            Value::List(_) => "it is a list here".to_owned(),
            Value::Map(_) => "it is a map here".to_owned(),
        };
        let quote = match node.value {
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float if wanted.contains("text") => {
                format!("; write \"{spelling}\" in quotes to mean the text")
            }
            Value::Text(_) | Value::Int(_) if wanted == "a list" => format!("; write [{}]", argv::as_list(&spelling)),
            _ => String::new(),
        };
        self.refuse(node, path, format!("must be {wanted}, but {is}{quote}"))
    }

    /// Spelled in the one way in which nobody reads it as something else: 8, -1, true, false.
    fn is_plain(&self, node: &Node) -> bool {
        let spelling = node.spelling(self.text);
        match &node.value {
            Value::Int(number) => number.to_string() == spelling,
            Value::Bool(flag) => flag.to_string() == spelling,
            _ => false,
        }
    }

    /// `y` and `n` were truth values once, and hardly anybody knows or means it.
    fn is_letter(&self, node: &Node) -> bool {
        matches!(node.spelling(self.text), "y" | "Y" | "n" | "N")
    }

    /// A whole number is taken as it is spelled: `[sleep, 5]` needs no quotes.
    fn text(&mut self, node: &Node, path: &Path<'_>) -> Read<String> {
        match &node.value {
            Value::Text(text) => Some(text.clone()),
            Value::Int(number) if self.is_plain(node) => Some(number.to_string()),
            Value::Bool(_) if self.is_letter(node) => Some(node.spelling(self.text).to_owned()),
            _ => self.wrong(node, path, "text"),
        }
    }

    fn parsed<T: FromStr<Err: Display>>(&mut self, node: &Node, path: &Path<'_>) -> Read<T> {
        let text = self.text(node, path)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => self.refuse(node, path, error.to_string()),
        }
    }

    fn number<T: TryFrom<i64>>(&mut self, node: &Node, path: &Path<'_>) -> Read<T> {
        match &node.value {
            Value::Int(number) if self.is_plain(node) => match T::try_from(*number) {
                Ok(number) => Some(number),
                Err(_) => self.refuse(node, path, format!("{number} is out of range")),
            },
            _ => self.wrong(node, path, "a whole number"),
        }
    }

    fn flag(&mut self, node: &Node, path: &Path<'_>) -> Read<bool> {
        match &node.value {
            Value::Bool(flag) if self.is_plain(node) => Some(*flag),
            _ => self.wrong(node, path, "true or false"),
        }
    }

    fn word<T: Copy>(&mut self, node: &Node, path: &Path<'_>, words: &[(&str, T)]) -> Read<T> {
        let text = self.text(node, path)?;
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, value)) => Some(*value),
            None => {
                let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                self.refuse(node, path, format!("{:?} is not known here; write {}", cut(&text), words.join(" or ")))
            }
        }
    }

    fn list<T>(
        &mut self,
        node: &Node,
        path: &Path<'_>,
        mut read: impl FnMut(&mut Self, &Node, &Path<'_>) -> Read<T>,
    ) -> Read<Vec<T>> {
        let Value::List(list) = &node.value else {
            self.wrong::<()>(node, path, "a list");
            // A word in place of a list of one: what it means is clear, and rules about it can be asked.
            let Value::Text(_) = node.value else { return None };
            let told = self.problems.count();
            let one = read(self, node, path);
            self.problems.forget_behind(told);
            return one.map(|one| vec![one]);
        };
        // Every entry is read, also after one that failed.
        let read: Vec<Read<T>> = list.iter().enumerate().map(|(at, node)| read(self, node, &path.at(at))).collect();
        read.into_iter().collect()
    }

    fn dict<T>(
        &mut self,
        node: &Node,
        path: &Path<'_>,
        mut read: impl FnMut(&mut Self, &Node, &Path<'_>) -> Read<T>,
    ) -> Read<BTreeMap<String, T>> {
        self.keys(node, path, None)?;
        let Value::Map(entries) = &node.value else { return None };
        let read: Vec<Read<(String, T)>> = entries
            .iter()
            .map(|(key, node)| read(self, node, &path.key(&key.value)).map(|value| (key.value.clone(), value)))
            .collect();
        read.into_iter().collect()
    }

    fn fields<'n, 'p>(&mut self, node: &'n Node, path: &'p Path<'p>, known: &[&str]) -> Read<Fields<'n, 'p>> {
        self.keys(node, path, Some(known))?;
        Some(Fields { node, path })
    }

    /// A map without a key twice, and without one that is not known. Reading goes on after either.
    fn keys(&mut self, node: &Node, path: &Path<'_>, known: Option<&[&str]>) -> Read<()> {
        let Value::Map(entries) = &node.value else { return self.wrong(node, path, "a map") };
        let mut seen = BTreeMap::new();
        for (key, _) in entries {
            let at = position(&key.referenced).unwrap_or(node.at);
            let name = key.value.as_str();
            let path = path.key(name);
            if let Some((line, column)) = seen.insert(name, at) {
                self.problems.at(&path, at, format!("this key is there twice, first at {line}:{column}"));
            } else if let Some(known) = known.filter(|known| !known.contains(&name)) {
                self.problems.at(&path, at, unknown(name, known));
            }
        }
        Some(())
    }

    fn optional<T>(
        &mut self,
        fields: &Fields<'_, '_>,
        key: &str,
        read: impl FnOnce(&mut Self, &Node, &Path<'_>) -> Read<T>,
    ) -> Read<Option<T>> {
        match fields.node.get(key) {
            Some(node) => read(self, node, &fields.path.key(key)).map(Some),
            None => Some(None),
        }
    }

    fn or_default<T: Default>(
        &mut self,
        fields: &Fields<'_, '_>,
        key: &str,
        read: impl FnOnce(&mut Self, &Node, &Path<'_>) -> Read<T>,
    ) -> Read<T> {
        self.optional(fields, key, read).map(Option::unwrap_or_default)
    }

    fn required<T>(
        &mut self,
        fields: &Fields<'_, '_>,
        key: &str,
        read: impl FnOnce(&mut Self, &Node, &Path<'_>) -> Read<T>,
    ) -> Read<T> {
        match self.optional(fields, key, read)? {
            Some(value) => Some(value),
            None => self.refuse(fields.node, fields.path, format!("`{key}` is missing")),
        }
    }
}

/// What an unknown key is told: the known one that it looks like, or all of them.
fn unknown(key: &str, known: &[&str]) -> String {
    match known.iter().find(|it| key.len() <= 40 && crate::distance(key, it) <= 2) {
        Some(like) => format!("unknown key; did you mean `{like}`?"),
        None => format!("unknown key; known here: {}", known.join(", ")),
    }
}
