#include "base/error.hpp"
#include "comm/nccl_session.hpp"

namespace gpt {

std::unique_ptr<CommSession> make_nccl_session(const World&, Device&, const NcclSettings&,
                                               const std::function<void(const std::string&)>&) {
  throw Error("this build has no NCCL, which sums over GPUs: configure it with -DGPT_CUDA=ON",
              ExitCode::usage);
}

std::string nccl_library_version() { return "none: built without CUDA"; }

}  // namespace gpt
