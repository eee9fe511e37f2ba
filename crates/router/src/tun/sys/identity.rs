//! Users, groups and privileges.

use std::ffi::CString;
use std::io;
use std::ptr;

use super::check;

/// A numeric user and group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) user: libc::uid_t,
    pub(crate) group: libc::gid_t,
}

/// Looks up a user in the user database, with the user's own group. `None`: unknown name.
pub(crate) fn user(name: &str) -> Option<Identity> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is a C string; the result points to static memory that is read before any
    // other lookup, and no other thread runs yet.
    let found = unsafe { libc::getpwnam(name.as_ptr()).as_ref() }?;
    Some(Identity {
        user: found.pw_uid,
        group: found.pw_gid,
    })
}

/// Looks up the number of a group. `None`: unknown name.
pub(crate) fn group(name: &str) -> Option<libc::gid_t> {
    let name = CString::new(name).ok()?;
    // SAFETY: as in `user`.
    Some(unsafe { libc::getgrnam(name.as_ptr()).as_ref() }?.gr_gid)
}

/// Switches to `identity`, if given, and permanently gives up all capabilities.
pub(crate) fn drop_privileges(identity: Option<Identity>) -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: libc::c_int,
    }
    #[repr(C)]
    struct Data {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    // SAFETY: all calls take numbers, or pointers to values that outlive them.
    unsafe {
        let current = Identity {
            user: libc::geteuid(),
            group: libc::getegid(),
        };
        // A service manager may have started us as this user already. Changing the user is then
        // neither allowed nor necessary.
        if let Some(Identity { user, group }) = identity.filter(|wanted| *wanted != current) {
            check(libc::setgroups(0, ptr::null()))?;
            check(libc::setresgid(group, group, group))?;
            check(libc::setresuid(user, user, user))?;
        }
        check(libc::prctl(
            libc::PR_SET_NO_NEW_PRIVS,
            1 as libc::c_ulong,
            0,
            0,
            0,
        ))?;
        let header = Header {
            version: VERSION_3,
            pid: 0,
        };
        let none = [const {
            Data {
                effective: 0,
                permitted: 0,
                inheritable: 0,
            }
        }; 2];
        if libc::syscall(libc::SYS_capset, &header, none.as_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The user that this process acts as.
pub(crate) fn effective_user() -> libc::uid_t {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}
