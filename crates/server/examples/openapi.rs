//! Prints the API's description: `cargo run -p server --example openapi > crates/server/openapi.json`.

fn main() {
    print!("{}", server::openapi_json());
}
