//! Contract suites of the ports, and doubles that tests steer.
