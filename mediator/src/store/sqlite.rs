//! Everything that only SQLite needs: options, codes, arguments, the look at the file.
//!
//! One connection writes, several read; WAL lets them not wait for each other. `synchronous=FULL` makes every
//! commit a sync, which is why the writer commits in groups.

use std::{
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use sqlx::{
    Arguments, ConnectOptions, Sqlite,
    sqlite::{
        SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteRow,
        SqliteSynchronous,
    },
};

use super::{
    batch::Write,
    error::{Outage, StoreError, Verdict},
    link::Link,
    row::Row,
    sql::{Query, Value},
};

/// How long a statement waits for another process's lock, and a caller for a connection that reads.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that read.
const READERS: u32 = 4;
/// Multi-row statements exist in several sizes each; all of them stay prepared.
const STATEMENTS: usize = 512;
/// Rows that a connection's thread reads ahead: a list of thousands of nodes is handed over in few turns of two threads.
const ROWS: usize = 1024;

/// Who writes, who reads, and the file below them.
#[derive(Debug)]
pub(super) struct Pools {
    pub(super) writer: Link<Sqlite>,
    pub(super) read: SqlitePool,
    path: PathBuf,
    file: Option<(u64, u64)>,
}

pub(super) async fn open(path: &str) -> Result<Pools, StoreError> {
    let path = PathBuf::from(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(StoreError::Config {
            url: format!("sqlite:{}", path.display()),
            why: format!("there is no folder {}; make it first, or write another path", folder.display()),
        });
    }
    // It holds permits and the hashes of tokens. SQLite gives the files beside it the same mode.
    if !path.exists() {
        let mut new = std::fs::OpenOptions::new();
        // Whoever else made it meanwhile is as good; whatever else is wrong, opening will say.
        drop(new.write(true).create_new(true).mode(0o600).open(&path));
    }
    let options = SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(PATIENCE)
        .statement_cache_capacity(STATEMENTS)
        .row_buffer_size(ROWS)
        .disable_statement_logging();
    let writer = Link::new(options.clone(), verdict);
    // The writer makes the file and sets WAL before anybody reads.
    writer.take("open").await?.give_back();
    let read = SqlitePoolOptions::new()
        .max_connections(READERS)
        .acquire_timeout(PATIENCE)
        .idle_timeout(None)
        .max_lifetime(None)
        // A file does not hang up; asking it costs a turn of the connection's thread each time.
        .test_before_acquire(false)
        .connect_with(options.pragma("query_only", "on"))
        .await
        .map_err(|source| StoreError::of("open", source, verdict))?;
    let file = identity(&path);
    Ok(Pools { writer, read, path, file })
}

/// It holds permits and the hashes of tokens.
pub(super) fn keep_private(file: &Path) -> Result<(), StoreError> {
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600))
        .map_err(|error| StoreError::of("backup.mode", sqlx::Error::Io(error), verdict))
}

impl Pools {
    pub(super) fn error(&self, query: &'static str, source: sqlx::Error) -> StoreError {
        StoreError::of(query, source, verdict)
    }

    /// SQLite goes on writing into a file that was deleted or replaced, and all of it is lost. So this is
    /// looked at before every transaction; it costs a microsecond.
    pub(super) fn check_file(&self, query: &'static str) -> Result<(), StoreError> {
        if self.file.is_some() && identity(&self.path) == self.file {
            Ok(())
        } else {
            Err(StoreError::Unavailable { query, outage: Outage::Gone, source: None })
        }
    }
}

/// Device and inode.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|it| (it.dev(), it.ino()))
}

/// What a result code means. The low byte is the primary code; the rest refines it.
pub(super) fn verdict(code: &str) -> Verdict {
    let code: u32 = code.parse().unwrap_or(0);
    match code & 0xff {
        5 | 6 => Verdict::Unavailable(Outage::Busy),        // BUSY, LOCKED
        13 => Verdict::Unavailable(Outage::Full),           // FULL
        8 | 14 => Verdict::Unavailable(Outage::Gone),       // READONLY, CANTOPEN
        10 | 11 | 26 => Verdict::Unavailable(Outage::Disk), // IOERR, CORRUPT, NOTADB
        19 => Verdict::Conflict,                            // CONSTRAINT
        _ => Verdict::Internal,
    }
}

pub(super) const fn text(query: &Query) -> &'static str {
    query.sqlite
}

pub(super) const fn row(row: SqliteRow) -> Row {
    Row::Sqlite(row)
}

pub(super) fn arguments(values: &[Value]) -> Result<SqliteArguments, sqlx::Error> {
    let mut arguments = SqliteArguments::default();
    for value in values {
        add(&mut arguments, value)?;
    }
    Ok(arguments)
}

fn add(arguments: &mut SqliteArguments, value: &Value) -> Result<(), sqlx::Error> {
    match value {
        Value::Text(text) => arguments.add(text.clone()),
        Value::Int(number) => arguments.add(*number),
        Value::Bool(flag) => arguments.add(flag.map(i64::from)),
        // `IN (SELECT value FROM json_each($n))`: one statement whatever the length of the list.
        Value::Texts(list) => arguments.add(serde_json::json!(list).to_string()),
    }
    .map_err(sqlx::Error::Encode)
}

/// A multi-row statement takes its rows as `VALUES`. It exists in sizes of powers of two and is filled up with
/// rows whose key is NULL, which `{rows}` drops: so a handful of texts stay prepared, whatever the batch.
pub(super) fn rows(write: &'static Write, rows: &[Vec<Value>]) -> Result<(Arc<str>, SqliteArguments), sqlx::Error> {
    let (size, width) = (rows.len().next_power_of_two(), write.columns.len());
    let text = write.text(size, || {
        let named: Vec<String> =
            write.columns.iter().enumerate().map(|(at, (name, _))| format!("column{} AS {name}", at + 1)).collect();
        let tuple = format!("({})", vec!["?"; width].join(", "));
        let tuples = vec![tuple.as_str(); size].join(", ");
        format!("(SELECT {} FROM (VALUES {tuples}) WHERE column1 IS NOT NULL) AS new", named.join(", "))
    });
    let mut arguments = SqliteArguments::default();
    arguments.reserve(size * width, 0);
    for value in rows.iter().flatten() {
        add(&mut arguments, value)?;
    }
    for _ in rows.len() * width..size * width {
        add(&mut arguments, &Value::Int(None))?;
    }
    Ok((text, arguments))
}
