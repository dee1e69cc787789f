//! Use-cases: what the routes of the API and the controllers do, in terms of ports only.
