#pragma once

#include <functional>

namespace gpt {

/// Ends all ranks of the job with `code`, from any thread, within about two seconds whatever hangs: MPI, the
/// file system, or the other end of standard error.
///
/// `tell` prints and writes why; it runs in a thread of its own and is left behind when it takes longer than
/// half a second. A second call, from another thread, only waits for the end.
[[noreturn]] void end_job(int code, const std::function<void()>& tell);

}  // namespace gpt
