//! gRPC through tonic's own server and client: the vectors G7 to G10.

use axum::body::Body;
use bytes::{Buf, BufMut};
use http::uri::PathAndQuery;
use http::{Request, header};
use tollgate::Quota;
use tollgate::tower::{GateLayer, Key, Pick, Rule};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::service::Routes;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Status};
use tonic_types::StatusExt;
use tower::{Layer, ServiceExt, service_fn};

use crate::limiter;

/// Messages without a form.
#[derive(Clone, Default)]
struct Plain;

impl Codec for Plain {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Plain;
    type Decoder = Plain;

    fn encoder(&mut self) -> Plain {
        Plain
    }

    fn decoder(&mut self) -> Plain {
        Plain
    }
}

impl Encoder for Plain {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining()).to_vec()))
    }
}

async fn call(channel: Channel) -> Status {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/test.Test/Call");
    let request = tonic::Request::new(Vec::new());
    client.unary(request, path, Plain).await.expect_err("there is no such service")
}

/// G7. A client of tonic's sees the code of a used up quota, and how long to wait; not that the server is
/// unavailable, upon which it would try again.
#[tokio::test]
async fn g7_a_client_sees_that_its_quota_is_used_up() {
    let rule = Rule::new("default", limiter(Quota::per_minute(1))).unwrap();
    let gate = GateLayer::builder().rule(rule).build().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let server = Server::builder().layer(gate).add_routes(Routes::default());
    let server = tokio::spawn(server.serve_with_incoming(incoming));
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let channel = channel.connect().await.unwrap();
    assert_eq!(call(channel.clone()).await.code(), Code::Unimplemented, "it reached the service");
    let refused = call(channel).await;
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.message(), "rate limit exceeded");
    let retry = refused.get_details_retry_info().expect("it says how long to wait");
    assert_eq!(retry.retry_delay.map(|delay| delay.as_secs()), Some(60));
    assert_eq!(refused.metadata().get("grpc-retry-pushback-ms").unwrap(), "60000");
    server.abort();
}

/// G8, G10. By the content type of the request, on one service.
#[tokio::test]
async fn g8_g10_the_content_type_decides() {
    let rule = Rule::new("default", limiter(Quota::per_minute(0))).unwrap();
    let rule = rule.by(|_| Pick::Count(Key::everyone()));
    let gate = GateLayer::builder().rule(rule).build().unwrap();
    let app = gate.layer(service_fn(|_: Request<Body>| async {
        Ok::<_, core::convert::Infallible>(http::Response::new(Body::empty()))
    }));
    let types = [
        ("application/grpc", 200, Some("8")),
        ("application/grpc+proto", 200, Some("8")),
        ("application/grpc-web+proto", 200, Some("8")),
        ("application/grpc-web-text", 200, Some("8")),
        ("application/grpc-webfoo", 429, None),
        ("application/grpcish", 429, None),
        ("application/json", 429, None),
    ];
    for (content_type, status, code) in types {
        let request = Request::builder().header(header::CONTENT_TYPE, content_type);
        let answer = app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), status, "{content_type}");
        let told = answer.headers().get("grpc-status").map(|code| code.to_str().unwrap());
        assert_eq!(told, code, "{content_type}");
    }
}
