#include "base/error.hpp"
#include "device/cuda/cudnn_attention.hpp"
#include "device/cuda_device.hpp"

namespace gpt {

bool has_cudnn_attention() { return false; }

std::string why_no_cudnn_attention() {
  return "this build has no cuDNN: configure with -DGPT_CUDA=ON -DGPT_CUDNN=ON, and with "
         "-DGPT_CUDNN_FRONTEND=DIR for the headers of its frontend (of github.com/NVIDIA/cudnn-frontend, or "
         "of the Python package nvidia-cudnn-frontend), or use --attention own";
}

std::unique_ptr<FusedAttention> make_cudnn_attention() { throw Error(why_no_cudnn_attention()); }

std::string cudnn_version() { return {}; }

}  // namespace gpt
