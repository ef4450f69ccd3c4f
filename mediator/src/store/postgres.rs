//! Everything that only PostgreSQL needs: options, codes, arguments, the fleet lock.

use std::{str::FromStr, sync::Arc, time::Duration};

use sqlx::{
    ConnectOptions, Postgres,
    postgres::{PgArguments, PgConnectOptions, PgPool, PgPoolOptions, PgRow},
};

use super::{
    batch::{Kind, Write},
    error::{Outage, StoreError, Verdict},
    link::Link,
    row::Row,
    sql::{Query, Value},
};

/// How long a caller waits for a connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections for everything but the fleet writer.
const OTHERS: u32 = 8;
const STATEMENTS: usize = 256;

/// The writer has its connection to itself: readers cannot keep it waiting.
#[derive(Debug)]
pub(super) struct Pools {
    pub(super) writer: Link<Postgres>,
    pub(super) others: PgPool,
    /// The line to other mediators. Only one that serves has it open, and under a name of its own.
    pub(super) line: PgPool,
}

/// What the server calls the session of a mediator that serves.
pub(super) const SERVING: &str = "mediator serving";

pub(super) async fn open(url: &str) -> Result<Pools, StoreError> {
    let options = PgConnectOptions::from_str(url).map_err(|error| StoreError::Config {
        url: redacted(url),
        why: format!("{error}; write postgres://USER:PASSWORD@HOST:PORT/DATABASE"),
    })?;
    let options = options
        .application_name("mediator")
        .statement_cache_capacity(STATEMENTS)
        .options([
            // Whoever waits for a lock or a statement longer than this is better told that it is busy.
            ("lock_timeout", "5s"),
            ("statement_timeout", "30s"),
            // A mediator that was frozen must not hold the fleet's lock for ever.
            ("idle_in_transaction_session_timeout", "30s"),
            // A plan is kept for as long as the connection, and most are made while the tables are empty: to read all of
            // one is the cheapest then, and stays so while it grows to a million rows. There is an index for whatever
            // is asked here, so go by those, row by row.
            ("enable_seqscan", "off"),
            ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"),
        ])
        .disable_statement_logging();
    let writer = Link::new(options.clone(), verdict);
    // A pool would try again and again for as long as it may; this says at once what is wrong.
    writer.take("open").await?.give_back();
    let line = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(PATIENCE)
        .connect_lazy_with(options.clone().application_name(SERVING));
    let others = PgPoolOptions::new()
        .max_connections(OTHERS)
        .acquire_timeout(PATIENCE)
        .connect_with(options)
        .await
        .map_err(|source| StoreError::of("open", source, verdict))?;
    Ok(Pools { writer, others, line })
}

impl Pools {
    /// A pool that could not connect in time says the same as one that has no connection free.
    pub(super) fn error(&self, query: &'static str, source: sqlx::Error) -> StoreError {
        match source {
            sqlx::Error::PoolTimedOut if self.others.size() == 0 => {
                StoreError::Unavailable { query, outage: Outage::Lost, source: Some(source) }
            }
            source => StoreError::of(query, source, verdict),
        }
    }
}

/// The URL without its password, for messages.
pub(super) fn redacted(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, rest)), Some((_, host))) if rest.contains('@') => format!("{scheme}://…@{host}"),
        _ => url.to_owned(),
    }
}

/// What a SQLSTATE means.
pub(super) fn verdict(code: &str) -> Verdict {
    match code {
        "55P03" | "57014" => Verdict::Unavailable(Outage::Busy), // lock_not_available, query_canceled (timeouts)
        "40001" | "40P01" => Verdict::Unavailable(Outage::Busy), // serialization_failure, deadlock_detected
        "53100" | "53200" => Verdict::Unavailable(Outage::Full), // disk_full, out_of_memory
        "58030" => Verdict::Unavailable(Outage::Disk),           // io_error
        "25P03" => Verdict::Unavailable(Outage::Lost),           // idle_in_transaction_session_timeout
        "3D000" => Verdict::Unavailable(Outage::Gone),           // invalid_catalog_name: no such database
        code if code.starts_with("53") => Verdict::Unavailable(Outage::Busy), // insufficient resources
        code if code.starts_with("57P") => Verdict::Unavailable(Outage::Lost), // shutdown, crash, starting up
        code if code.starts_with("08") => Verdict::Unavailable(Outage::Lost), // connection exceptions
        code if code.starts_with("28") => Verdict::Unavailable(Outage::Lost), // not let in
        code if code.starts_with("23") => Verdict::Conflict,     // integrity constraints
        _ => Verdict::Internal,
    }
}

pub(super) const fn text(query: &Query) -> &'static str {
    query.postgres
}

pub(super) const fn row(row: PgRow) -> Row {
    Row::Postgres(row)
}

pub(super) fn arguments(values: &[Value]) -> Result<PgArguments, sqlx::Error> {
    use sqlx::Arguments;
    let mut arguments = PgArguments::default();
    for value in values {
        match value {
            Value::Text(text) => arguments.add(text),
            Value::Int(number) => arguments.add(*number),
            Value::Bool(flag) => arguments.add(*flag),
            Value::Texts(list) => arguments.add(list),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    Ok(arguments)
}

/// A multi-row statement takes its rows as one array per column: one text, whatever the batch.
pub(super) fn rows(write: &'static Write, rows: &[Vec<Value>]) -> Result<(Arc<str>, PgArguments), sqlx::Error> {
    use sqlx::Arguments;
    let text = write.text(0, || {
        let names: Vec<&str> = write.columns.iter().map(|(name, _)| *name).collect();
        let arrays: Vec<String> = write
            .columns
            .iter()
            .enumerate()
            .map(|(at, (_, kind))| {
                let kind = match kind {
                    Kind::Text => "text",
                    Kind::Int => "bigint",
                    Kind::Bool => "boolean",
                };
                format!("${}::{kind}[]", at + 1)
            })
            .collect();
        format!("UNNEST({}) AS new({})", arrays.join(", "), names.join(", "))
    });
    let mut arguments = PgArguments::default();
    for (at, (_, kind)) in write.columns.iter().enumerate() {
        let column = rows.iter().filter_map(|row| row.get(at));
        match kind {
            Kind::Text => arguments.add(column.map(Value::as_text).collect::<Vec<Option<&str>>>()),
            Kind::Int => arguments.add(column.map(Value::as_int).collect::<Vec<Option<i64>>>()),
            Kind::Bool => arguments.add(column.map(Value::as_bool).collect::<Vec<Option<bool>>>()),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    Ok((text, arguments))
}
