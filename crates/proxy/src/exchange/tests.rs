//! A request on its way to one server, and to the next.

#![allow(clippy::unwrap_used)]

use super::*;

fn request() -> Request<()> {
    let request = Request::builder().uri("/cart?id=7").header(HOST, "shop.example:8443");
    request.body(()).unwrap()
}

/// A request that a dying connection of HTTP/2 gave back went to the server's `localhost`.
#[test]
fn a_request_keeps_its_host_from_one_connection_to_the_next() {
    let mut request = request();
    for encrypted in [true, true, false] {
        for_http2(&mut request, encrypted);
        let scheme = if encrypted { "https" } else { "http" };
        let expected = format!("{scheme}://shop.example:8443/cart?id=7");
        assert_eq!(request.uri().to_string(), expected);
        assert!(request.headers().get(HOST).is_none());
    }
    for_http1(&mut request);
    assert_eq!(request.uri(), "/cart?id=7");
    assert_eq!(request.headers()[HOST], "shop.example:8443");
    assert_eq!(request.version(), Version::HTTP_11);
}

#[test]
fn a_request_of_http1_is_left_alone() {
    let mut request = request();
    for_http1(&mut request);
    assert_eq!((request.uri().to_string().as_str(), request.headers().len()), ("/cart?id=7", 1));
}
