//! What every request passes, and what every answer carries. In this order: `Host`, `Origin`, the token, and on every
//! write the CSRF token. It stands in front of all pages, so that none can be forgotten.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse, Redirect, Response},
};

use super::{
    Shared,
    door::{self, LATER, Wrong},
    fault::Fault,
    fields::Fields,
    kept::Sent,
    seats::Seat,
};

/// A form that takes longer to arrive holds memory for nobody.
const PATIENCE: Duration = Duration::from_secs(10);

/// Larger forms are refused; a text of 1 MiB may be sent percent-encoded.
const LARGEST: usize = 4 << 20;

/// Those without a text of their own: whoever has not said the token yet may send one of these, and no more.
const SMALL: usize = 64 << 10;

const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                   form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// `Referrer-Policy: no-referrer` would make browsers send `Origin: null` with our own forms.
const HEADERS: [(&str, &str); 7] = [
    ("content-security-policy", CSP),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
];

pub(super) async fn guard(State(panel): State<Shared>, request: Request, next: Next) -> Response {
    let mut response = match admit(&panel, request).await {
        Ok((request, sent)) => {
            // Not before: a form that does not arrive must hold no place.
            let _work = request.extensions().get::<Arc<Seat>>().map(Seat::work);
            let mut response = next.run(request).await;
            match (response.extensions_mut().remove::<Fault>(), sent) {
                (Some(fault), Some(sent)) => fault.keeping(&sent).into_response(),
                (Some(_) | None, _) => response,
            }
        }
        Err(response) => response,
    };
    if response.extensions().get::<Wrong>().is_some() {
        tokio::time::sleep(LATER).await;
    }
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

async fn admit(panel: &Shared, request: Request) -> Result<(Request, Option<Sent>), Response> {
    let host = host(&request).map_err(IntoResponse::into_response)?;
    if panel.door.is_local() && !is_loopback(&host) {
        let why = format!("{host} is not a name of this machine: open the panel as localhost or 127.0.0.1.");
        return Err(Fault::new(StatusCode::MISDIRECTED_REQUEST, "Refused", why).into_response());
    }
    let is_write = !matches!(*request.method(), Method::GET | Method::HEAD);
    check_origin(request.headers(), &host, is_write).map_err(IntoResponse::into_response)?;
    let (path, version) = (request.uri().path().to_owned(), panel.live.version());
    let is_open = path == "/login" || path.starts_with("/assets/");
    let visit = match panel.door.visit(request.headers(), version).await.map_err(IntoResponse::into_response)? {
        Some(visit) => visit,
        None if is_open => panel.door.stranger(version),
        None => {
            let is_guess = request.headers().contains_key(header::AUTHORIZATION);
            let is_page = !is_write && path != "/events";
            let shut =
                if is_page { Redirect::to("/login").into_response() } else { Fault::locked(is_write).into_response() };
            return Err(if is_guess { (Extension(Wrong), shut).into_response() } else { shut });
        }
    };
    let (mut request, mut sent) = (request, None);
    if is_write {
        // Whoever is in may say the token again.
        let csrf = if path == "/login" { panel.door.csrf("") } else { visit.csrf.clone() };
        (request, sent) = written(request, csrf).await.map_err(IntoResponse::into_response)?;
    }
    request.extensions_mut().insert(visit);
    Ok((request, sent))
}

/// Reads a form and checks that it is one of ours. Comes with what can be shown again, which is nothing at the door.
async fn written(request: Request, csrf: String) -> Result<(Request, Option<Sent>), Fault> {
    let (mut parts, body) = request.into_parts();
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/x-www-form-urlencoded") {
        let why = "Forms are sent as application/x-www-form-urlencoded.";
        return Err(Fault::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Refused", why));
    }
    let slow =
        |_| Fault::new(StatusCode::REQUEST_TIMEOUT, "Refused", "The form did not arrive in time: send it again.");
    let has_text = ["/new", "/edit", "/answer"].iter().any(|it| parts.uri.path().ends_with(it));
    let (most, why) = if has_text {
        (LARGEST, "The form is larger than 4 MiB: edit the ticket's file instead.")
    } else {
        (SMALL, "The form is larger than 64 KiB.")
    };
    let large = |_| Fault::new(StatusCode::PAYLOAD_TOO_LARGE, "Too large", why);
    let bytes = tokio::time::timeout(PATIENCE, to_bytes(body, most)).await.map_err(slow)?.map_err(large)?;
    let fields = Fields::read(&bytes);
    let path = parts.uri.path().to_owned();
    let is_form = !matches!(path.as_str(), "/login" | "/logout");
    if !door::same(fields.get("csrf"), &csrf) {
        let why = "The form does not come from this panel, or from before it was started: nothing was done.";
        let fault = Fault::refused(why);
        return Err(if is_form { fault.keeping(&Sent { path, csrf, fields }) } else { fault });
    }
    let sent = is_form.then(|| Sent { path, csrf, fields: fields.clone() });
    parts.extensions.insert(fields);
    Ok((Request::from_parts(parts, Body::empty()), sent))
}

/// The one name that a request was sent to.
fn host(request: &Request) -> Result<Authority, Fault> {
    let odd = || Fault::new(StatusCode::BAD_REQUEST, "Refused", "The request names no single host.");
    let mut said = request.headers().get_all(header::HOST).into_iter();
    let header = said.next().map(|it| it.to_str().ok().and_then(|it| it.parse::<Authority>().ok()).ok_or_else(odd));
    let header = header.transpose()?;
    let named = request.uri().authority().cloned();
    let host = match (header, named) {
        (Some(header), Some(named)) if header != named => return Err(odd()),
        (Some(host), _) | (None, Some(host)) => host,
        (None, None) => return Err(odd()),
    };
    if said.next().is_some() || host.as_str().contains('@') { Err(odd()) } else { Ok(host) }
}

/// By its name alone: a port may be forwarded, a name that leads here from elsewhere may not.
fn is_loopback(host: &Authority) -> bool {
    let name = host.host();
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A page of another origin may neither read nor write. Every browser sends `Origin` with a write.
fn check_origin(headers: &HeaderMap, host: &Authority, is_write: bool) -> Result<(), Fault> {
    let mut origins = headers.get_all(header::ORIGIN).into_iter();
    let foreign = || Fault::refused("The request comes from another site.");
    match (origins.next(), origins.next()) {
        (None, _) if is_write => Err(Fault::refused("A write must say its Origin, as every browser does.")),
        (None, _) => Ok(()),
        (Some(origin), None) => {
            let origin = origin.to_str().map_err(|_| foreign())?;
            let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            let is_ours = rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host.as_str()));
            if is_ours { Ok(()) } else { Err(foreign()) }
        }
        (Some(_), Some(_)) => Err(foreign()),
    }
}
