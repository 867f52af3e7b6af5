//! A process's I/O priority: ioprio_get(2), which neither `/proc` nor a library tells.

/// `IOPRIO_WHO_PROCESS` of `linux/ioprio.h`.
const WHO_PROCESS: libc::c_int = 1;
/// `IOPRIO_CLASS_IDLE`, in the bits above `CLASS_SHIFT`.
const CLASS_IDLE: libc::c_long = 3;
/// `IOPRIO_CLASS_SHIFT`.
const CLASS_SHIFT: u32 = 13;

/// True if a process does I/O only when nobody else does (`ionice -c 3`).
pub(crate) fn is_idle(process: i32) -> bool {
    // SAFETY: the call takes two numbers, reads and writes no memory of ours, and answers with a
    // number; that there is no such process is an answer below 0.
    #[allow(unsafe_code)]
    let answer = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, process) };
    answer >= 0 && answer >> CLASS_SHIFT == CLASS_IDLE
}
