//! User, capabilities and namespaces.

use rustix::process::{Gid, Uid, getuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, set_capabilities, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid, unshare_unsafe,
};
use sless_core::build_protocol::BUILDER_UID;

/// Moves into a network namespace of its own, which has no interface that is up. Without root that takes a user namespace.
pub(super) fn leave_network() -> Result<(), String> {
    let mut flags = UnshareFlags::NEWNET | UnshareFlags::NEWIPC;
    if !getuid().is_root() {
        flags |= UnshareFlags::NEWUSER;
    }
    // SAFETY: the table of files stays shared, which is what could break others.
    #[expect(unsafe_code, reason = "namespaces of network, IPC and user are no memory and no file descriptors")]
    let result = unsafe { unshare_unsafe(flags) };
    result.map_err(|e| e.to_string())
}

/// Becomes an unprivileged user where it is root, and lets go of all capabilities in any case.
pub(super) fn drop_privileges() -> Result<(), String> {
    let user = if getuid().is_root() { become_nobody().map_err(|e| e.to_string()) } else { Ok(()) };
    let capabilities = drop_capabilities();
    user.and(capabilities)
}

/// Lets go of all capabilities.
pub(super) fn drop_capabilities() -> Result<(), String> {
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(|e| e.to_string())
}

fn become_nobody() -> rustix::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(BUILDER_UID), Gid::from_raw(BUILDER_UID));
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)
}
