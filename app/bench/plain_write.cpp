#include "bench/plain_write.hpp"

#include "base/error.hpp"
#include "data/file_io.hpp"

#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <span>
#include <system_error>
#include <unistd.h>

namespace gpt {
namespace {

FileHandle open_written(const std::string& path) {
  FileHandle file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  validate(static_cast<bool>(file), ExitCode::failed, "cannot write {}: {}", path,
           std::generic_category().message(errno));
  return file;
}

}  // namespace

void write_plainly(const World& world, const std::string& path, const std::vector<StateTensor>& state,
                   Range part, int64_t elements) {
  world.everywhere([&] {
    const FileHandle file = open_written(path);
    int64_t begin = 0;  // of the tensor in the file, in elements
    for (const StateTensor& tensor : state) {
      const Tensor own = tensor.data.flat(shifted(part, -tensor.first));
      const std::span bytes(static_cast<const std::byte*>(own.raw()), static_cast<size_t>(own.bytes()));
      write_at(file, path, (begin + part.begin) * size_of(DType::f32), bytes);
      begin += elements;
    }
  });
  // Dirty pages belong to the node that wrote them; as for checkpoints, one rank brings its node's to the
  // disk.
  world.everywhere([&] {
    if (world.node_rank() != 0) return;
    const FileHandle file = open_written(path);
    const int failure = fsync(file.get()) == 0 ? 0 : errno;
    validate(failure == 0, ExitCode::failed, "cannot bring {} to the disk: {}", path,
             std::generic_category().message(failure));
  });
}

}  // namespace gpt
