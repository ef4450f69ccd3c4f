//! From a failure's kind to an HTTP status with a JSON body: the only such mapping.

use http::{HeaderValue, Response, StatusCode, header};

use crate::error::{Error, Kind};

/// The HTTP status of a kind.
#[must_use]
pub const fn status(kind: Kind) -> StatusCode {
    match kind {
        Kind::Invalid => StatusCode::BAD_REQUEST,
        Kind::Unauthenticated => StatusCode::UNAUTHORIZED,
        Kind::WrongRole | Kind::ForeignNode => StatusCode::FORBIDDEN,
        Kind::Superseded | Kind::Stale | Kind::RunExists | Kind::NotAsked => StatusCode::CONFLICT,
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Kind::Busy => StatusCode::TOO_MANY_REQUESTS,
        Kind::TooSlow => StatusCode::REQUEST_TIMEOUT,
        Kind::Checksum => StatusCode::UNPROCESSABLE_ENTITY,
        Kind::StoreUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// `{"error": {"reason": …, "message": …}}`
#[must_use]
pub fn response(error: &Error) -> Response<String> {
    error.note();
    let kind = error.kind();
    let body = serde_json::json!({"error": {"reason": kind.reason(), "message": error.public_message()}});
    let mut response = Response::new(format!("{body}\n"));
    *response.status_mut() = status(kind);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if kind == Kind::Busy {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if kind == Kind::Unauthenticated {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_token_is_told_how_to_get_one() {
        let response = response(&Error::Unauthenticated("no token".into()));
        assert_eq!(response.status(), 401);
        assert_eq!(response.headers()[header::WWW_AUTHENTICATE], "Bearer");
        assert_eq!(response.body(), "{\"error\":{\"reason\":\"UNAUTHENTICATED\",\"message\":\"no token\"}}\n");
    }

    #[test]
    fn mistakes_of_a_caller_are_4xx_and_ours_5xx() {
        for kind in Kind::ALL {
            let ours = matches!(kind, Kind::StoreUnavailable | Kind::Internal);
            assert_eq!(status(kind).is_server_error(), ours, "{kind:?}");
            assert_eq!(status(kind).is_client_error(), !ours, "{kind:?}");
        }
    }
}
