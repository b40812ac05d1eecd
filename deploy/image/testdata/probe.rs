//! Connects to HOST:PORT, as the program does to an API server that is given by name.

fn main() {
    let address = std::env::args().nth(1).expect("HOST:PORT");
    std::net::TcpStream::connect(&address).unwrap_or_else(|error| panic!("{address}: {error}"));
}
