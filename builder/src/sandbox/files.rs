//! Landlock: no path, no port, no signal to others.

use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, PathBeneath, PathFd, RestrictionStatus, Ruleset, RulesetAttr as _,
    RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};

/// The newest rights that are asked for (Linux 6.15); older kernels give what they have.
const RIGHTS: ABI = ABI::V7;

/// Files that are open stay usable; nothing can be opened, made, renamed or removed any more.
pub(super) fn close_all_paths() -> Result<(), String> {
    let status = ruleset().and_then(RulesetCreated::restrict_self).map_err(|e| e.to_string())?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        RulesetStatus::PartiallyEnforced => Err("this kernel knows a part of it only".to_owned()),
        RulesetStatus::NotEnforced => Err("this kernel does not have it".to_owned()),
    }
}

/// The same but for one folder, and for paths that are read and run.
pub(super) fn close_all_paths_but(folder: &Path, read: &[&Path]) -> Result<(), String> {
    let restrict = || -> Result<RestrictionStatus, Box<dyn std::error::Error>> {
        // Not a device, socket or pipe: files, and folders.
        let write = AccessFs::from_all(RIGHTS)
            & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock | AccessFs::Execute);
        let mut rules = ruleset()?.add_rule(PathBeneath::new(PathFd::new(folder)?, write))?;
        // Where what programs say goes that nobody listens to.
        let sink = AccessFs::ReadFile | AccessFs::WriteFile;
        rules = rules.add_rule(PathBeneath::new(PathFd::new("/dev/null")?, sink))?;
        for path in read {
            let access = if path.is_dir() {
                AccessFs::from_read(RIGHTS)
            } else {
                AccessFs::from_read(RIGHTS) & AccessFs::from_file(RIGHTS)
            };
            rules = rules.add_rule(PathBeneath::new(PathFd::new(path)?, access))?;
        }
        Ok(rules.restrict_self()?)
    };
    match restrict().map_err(|e| e.to_string())?.ruleset {
        RulesetStatus::NotEnforced => Err("this kernel does not have it".to_owned()),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}

fn ruleset() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(RIGHTS))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(RIGHTS)))
        .and_then(|rules| rules.scope(Scope::from_all(RIGHTS)))
        .and_then(Ruleset::create)
}
