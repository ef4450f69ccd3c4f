//! Stylesheet, script and icon: in the program, under names that change with their content, so that a browser may keep
//! them for ever.

use std::sync::LazyLock;

use axum::{
    extract::Path,
    http::header,
    response::{IntoResponse, Response},
};
use shared::sha256_hex;

use super::fault::Fault;

/// One file.
#[derive(Debug)]
pub(super) struct Asset {
    name: String,
    kind: &'static str,
    text: &'static str,
}

impl Asset {
    fn new(stem: &str, ending: &str, kind: &'static str, text: &'static str) -> Self {
        let hash = sha256_hex(text.as_bytes());
        Self { name: format!("{stem}-{hash:.12}.{ending}"), kind, text }
    }

    /// Where it is.
    pub(super) fn address(&self) -> String {
        format!("/assets/{}", self.name)
    }
}

pub(super) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("panel", "css", "text/css; charset=utf-8", include_str!("../../assets/panel.css")));
pub(super) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("panel", "js", "text/javascript; charset=utf-8", include_str!("../../assets/panel.js"))
});
pub(super) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon", "svg", "image/svg+xml", include_str!("../../assets/icon.svg")));

pub(super) async fn file(Path(name): Path<String>) -> Result<Response, Fault> {
    let found = [&*STYLE, &*SCRIPT, &*ICON].into_iter().find(|asset| asset.name == name);
    let asset = found.ok_or_else(|| Fault::missing("There is no such file; load the page again."))?;
    let headers = [(header::CONTENT_TYPE, asset.kind), (header::CACHE_CONTROL, "public, max-age=31536000, immutable")];
    Ok((headers, asset.text).into_response())
}
