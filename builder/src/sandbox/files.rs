//! Landlock: no path, no port, no signal to others.

use landlock::{ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetStatus, Scope};

/// The newest rights that are asked for (Linux 6.15); older kernels give what they have.
const RIGHTS: ABI = ABI::V7;

/// Files that are open stay usable; nothing can be opened, made, renamed or removed any more.
pub(super) fn close_all_paths() -> Result<(), String> {
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(RIGHTS))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(RIGHTS)))
        .and_then(|rules| rules.scope(Scope::from_all(RIGHTS)))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(|e| e.to_string())?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        RulesetStatus::PartiallyEnforced => Err("this kernel knows a part of it only".to_owned()),
        RulesetStatus::NotEnforced => Err("this kernel does not have it".to_owned()),
    }
}
