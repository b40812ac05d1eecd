//! `/debug/flags/v`: the verbosity of a running process (upstream apiserver `pkg/server/routes/flags.go`).

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Response, StatusCode};

use super::{Asked, Listed, Pages};
use crate::serve::answer::{self, Body};
use crate::telemetry::Verbosity;

const INDEX: &str = "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\nflags:<br>\n<table>\n<tr>v<br>\n\
                     </table>\n<br>\nfull flags configurable<br>\n</body>\n</html>\n";

pub(super) fn install(pages: &Pages, verbosity: &Verbosity) {
    for path in ["/debug/flags", "/debug/flags/"] {
        pages.add(path, Listed::No, |_| answer::answer(StatusCode::OK, "text/html; charset=utf-8", INDEX));
    }
    let verbosity = verbosity.clone();
    pages.add("/debug/flags/v", Listed::No, move |asked| set(asked, &verbosity));
}

/// Upstream `StringFlagPutHandler` with `logs.GlogSetter`.
fn set(asked: &Asked, verbosity: &Verbosity) -> Response<Body> {
    if asked.method != Method::PUT {
        return plain(StatusCode::NOT_ACCEPTABLE, "unsupported http method");
    }
    let text = String::from_utf8_lossy(&asked.body);
    match text.parse::<u32>().map_err(|error| error.to_string()).and_then(|level| verbosity.set(level)) {
        Ok(()) => plain(StatusCode::OK, &format!("successfully set klog.logging.verbosity to {text}")),
        Err(error) => plain(StatusCode::BAD_REQUEST, &format!("parsing {text:?}: {error}")),
    }
}

/// Upstream `writePlainText`, which says nothing of the character set.
fn plain(status: StatusCode, message: &str) -> Response<Body> {
    let mut response = answer::error(status, message);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}
