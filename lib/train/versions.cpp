#include "train/versions.hpp"

#include "comm/nccl_session.hpp"
#include "device/cuda_device.hpp"
#include "device/device.hpp"
#include "h5/h5.hpp"

#include <boost/version.hpp>
#include <fmt/format.h>
#include <mpi.h>

namespace gpt {
namespace {

std::string mpi_library() {
  std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int length = 0;
  MPI_Get_library_version(text.data(),
                          &length);  // the one call besides MPI_Initialized allowed before MPI_Init
  text.resize(static_cast<size_t>(length));
  return text.substr(0, text.find(','));
}

}  // namespace

std::string version_text(const std::string& program) {
  std::string text = fmt::format("{} {}\n", program, GPT_VERSION);
  text += fmt::format("  HDF5    compiled {}, loaded {}\n", hdf5_compiled_version(), hdf5_loaded_version());
  text += fmt::format("  oneDNN  {}\n", math_library_version());
  text += fmt::format("  MPI     standard {}.{}, loaded {}\n", MPI_VERSION, MPI_SUBVERSION, mpi_library());
  if (const std::string cuda = cuda_version(); !cuda.empty()) {
    text += fmt::format("  CUDA    {}\n", cuda);
    text += fmt::format("  NCCL    {}\n", nccl_library_version());
  }
  if (const std::string cudnn = cudnn_version(); !cudnn.empty()) text += fmt::format("  cuDNN   {}\n", cudnn);
  text += fmt::format("  Boost   compiled {}.{}.{}\n", BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000,
                      BOOST_VERSION % 100);
  text += fmt::format("  fmt     compiled {}.{}.{}\n", FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
                      FMT_VERSION % 100);
  return text;
}

}  // namespace gpt
