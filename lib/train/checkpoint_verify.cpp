#include "train/checkpoint_verify.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/list_some.hpp"
#include "text/printable.hpp"
#include "train/checkpoint_format.hpp"

#include <optional>
#include <utility>

namespace gpt {
namespace {

class Examiner {
public:
  Examiner(const std::string& file, const Progress& progress) : file_(file), progress_(progress) {}

  CheckpointExamination run() {
    guarded([this] { examine(); });
    return std::move(result_);
  }

private:
  /// An error is damage, and what follows is examined all the same.
  template <class Work>
  void guarded(Work work) {
    try {
      work();
    } catch (const Error& error) {
      result_.damage.push_back({.what = error.what(), .state = {}, .parameters = {}});
    }
  }

  void examine() {
    const OpenCheckpoint checkpoint = open_checkpoint(file_);
    result_.bytes = checkpoint.record.file_size;
    const CheckpointHeader header = header_of(checkpoint);
    result_.step = header.step;
    const Layout layout(header.model);
    const std::vector<std::string> names = state_names(checkpoint);
    validate(std::ssize(names) == std::ssize(checkpoint.record.extents), ExitCode::damaged,
             "checkpoint {}: block checksums cover {} ranges of bytes, its state has {} tensors", file_,
             checkpoint.record.extents.size(), names.size());
    const int64_t blocks = std::ssize(names) * checkpoint_blocks(layout.size());
    for (const std::string& name : names) guarded([&] { examine_tensor(checkpoint, name, layout, blocks); });
  }

  void examine_tensor(const OpenCheckpoint& checkpoint, const std::string& name, const Layout& layout,
                      int64_t blocks) {
    StateBlocks tensor(checkpoint, name, layout.size());
    for (int64_t number = 0; number < tensor.count(); ++number) {
      guarded([&] {
        const StateBlocks::Block block = tensor.read(number);
        if (!block.is_whole()) report(tensor, name, number, block, layout);
      });
      progress_("verifying", ++result_.blocks, blocks);
    }
  }

  void report(const StateBlocks& tensor, const std::string& name, int64_t number,
              const StateBlocks::Block& block, const Layout& layout) {
    CheckpointDamage damage{.what = {}, .state = name, .block = number, .parameters = {}};
    for (const Parameter& parameter : layout.all())
      if (!common({parameter.offset, parameter.offset + parameter.stored}, block.elements).empty())
        damage.parameters.push_back(parameter.name);
    const int64_t first = tensor.first_byte() + block.elements.begin * size_of(DType::f32);
    damage.what = fmt::format(
        "{}: block {} of {} (bytes {} to {} of the file: {}) is damaged: its checksum is {}, {} was written",
        printable_line(tensor.where()), number, tensor.count(), first, first + block.data.bytes() - 1,
        damage.parameters.empty() ? "padding" : list_some(damage.parameters), to_hex(block.found),
        to_hex(block.written));
    result_.damage.push_back(std::move(damage));
  }

  const std::string& file_;
  const Progress& progress_;
  CheckpointExamination result_;
};

}  // namespace

CheckpointExamination examine_checkpoint(const std::string& file, const Progress& progress) {
  return Examiner(file, progress).run();
}

}  // namespace gpt
