//! Where servers put the address of a connection.

use core::net::{IpAddr, SocketAddr};

use http::Extensions;

/// The address of the connection that a request has come by.
pub(super) fn of(extensions: &Extensions) -> Option<IpAddr> {
    let bare = extensions.get::<SocketAddr>().map(SocketAddr::ip);
    bare.or_else(|| extensions.get::<IpAddr>().copied())
        .or_else(|| of_axum(extensions))
        .or_else(|| of_tonic(extensions))
}

#[cfg(feature = "axum")]
fn of_axum(extensions: &Extensions) -> Option<IpAddr> {
    use axum::extract::ConnectInfo;
    use axum::extract::connect_info::MockConnectInfo;

    let real = extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    let mock = || extensions.get::<MockConnectInfo<SocketAddr>>().map(|info| info.0);
    real.or_else(mock).map(|peer| peer.ip())
}

#[cfg(not(feature = "axum"))]
fn of_axum(_: &Extensions) -> Option<IpAddr> {
    None
}

#[cfg(feature = "tonic")]
fn of_tonic(extensions: &Extensions) -> Option<IpAddr> {
    use tonic::metadata::MetadataMap;
    use tonic::transport::server::TcpConnectInfo;

    let plain = extensions.get::<TcpConnectInfo>().and_then(TcpConnectInfo::remote_addr);
    let of_tls = || {
        // Its type is there only with tonic's own features for TLS; a request of tonic's knows it.
        let metadata = MetadataMap::default();
        tonic::Request::from_parts(metadata, extensions.clone(), ()).remote_addr()
    };
    plain.or_else(of_tls).map(|peer| peer.ip())
}

#[cfg(not(feature = "tonic"))]
fn of_tonic(_: &Extensions) -> Option<IpAddr> {
    None
}
