//! A dashboard beside an API: its page, the API's document, and the metrics. `web/page.html` is
//! what all pages have in common.

use crate::api::Refused;
use axum::body::Bytes;
use axum::http::{Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use axum::{Json, Router};
use utoipa_axum::router::OpenApiRouter;

/// A dashboard.
pub struct Dashboard {
    /// Title of its page.
    pub title: &'static str,
    /// Place where people find the token, as HTML.
    pub token: &'static str,
    /// Its page below the form that takes the token, as HTML.
    pub sections: &'static str,
    /// The script that fills the sections.
    pub script: &'static str,
}

impl Dashboard {
    /// Routes to the page, to what `api` declares and to its document, and to `metrics`. Any other
    /// path is refused as everything else is, in JSON.
    pub fn beside<S: Clone + Send + Sync + 'static>(
        self,
        api: OpenApiRouter<S>,
        metrics: MethodRouter<S>,
    ) -> Router<S> {
        let (router, document) = api.split_for_parts();
        let page = include_str!("../../web/page.html")
            .replace("{{title}}", self.title)
            .replace("{{token}}", self.token)
            .replace("{{sections}}", self.sections);
        router
            .route("/", asset("text/html; charset=utf-8", page))
            .route("/app.js", asset("text/javascript", self.script))
            .route("/page.js", asset("text/javascript", include_str!("../../web/page.js")))
            .route("/style.css", asset("text/css", include_str!("../../web/style.css")))
            .route("/icon.svg", asset("image/svg+xml", include_str!("../../web/icon.svg")))
            .route("/v1/openapi.json", get(async move || Json(document)))
            .route("/metrics", metrics)
            .fallback(nowhere)
    }
}

/// Refuses a path that there is not.
async fn nowhere(uri: Uri) -> Refused {
    let path = uri.path();
    Refused::missing(format!("there is no {path}; /v1/openapi.json lists what there is"))
}

/// True if a path belongs to the page, which tells nothing about the program behind it.
pub fn is_page(path: &str) -> bool {
    matches!(path, "/" | "/app.js" | "/page.js" | "/style.css" | "/icon.svg")
}

fn asset<S: Clone + Send + Sync + 'static>(
    kind: &'static str,
    text: impl Into<Bytes>,
) -> MethodRouter<S> {
    let text = text.into();
    let own = "default-src 'self'; frame-ancestors 'none'";
    let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_SECURITY_POLICY, own)];
    get(async move || -> Response { (headers, text.clone()).into_response() })
}
