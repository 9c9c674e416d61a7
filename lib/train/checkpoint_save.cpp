#include "base/contracts.hpp"
#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/hash.hpp"
#include "data/file_io.hpp"
#include "train/checkpoint_format.hpp"
#include "train/save_files.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <unistd.h>

namespace gpt {
namespace {

/// One save, by all ranks.
class Save {
public:
  Save(const std::string& folder, const CheckpointHeader& header, const Layout& layout,
       const std::vector<StateTensor>& state, const World& world, const std::function<void()>& confirm)
      : folder_(folder),
        path_(folder + "/" + checkpoint_name(header.step)),
        partial_(path_ + ".partial"),
        header_(header),
        layout_(layout),
        state_(state),
        world_(world),
        confirm_(confirm) {}

  void run() {
    try {
      world_.everywhere([this] { check_size_limit(state_bytes() + structure_bytes()); });
      world_.everywhere([this] {
        if (world_.is_root()) prepare();
      });
      write_state();
      // Dirty pages belong to the node that wrote them; one rank brings its node's to the disk.
      world_.everywhere([this] {
        if (world_.node_rank() == 0) sync_file(partial_);
      });
      world_.everywhere([this] {
        if (world_.is_root()) commit();
      });
    } catch (const Error& error) {
      const std::string message = fmt::format("cannot save {}: {}", path_, error.what());
      const auto* shared = dynamic_cast<const SharedError*>(&error);
      // Of an error of this rank alone the partial file stays: others may be writing it.
      if (shared == nullptr && world_.size() > 1) throw Error(message, ExitCode::saving_failed);
      if (created_) unlink(partial_.c_str());
      throw SharedError(message, ExitCode::saving_failed, shared != nullptr ? shared->rank() : std::nullopt);
    }
  }

private:
  int64_t state_bytes() const {
    return std::ssize(state_) * layout_.size() * static_cast<int64_t>(sizeof(float));
  }

  /// Room for all that HDF5 writes itself: a page for every object and the texts.
  int64_t structure_bytes() const {
    const int64_t objects = std::ssize(layout_.all()) + 2 * std::ssize(state_) + 16;
    return 4096 * objects + std::ssize(header_.configuration) + std::ssize(header_.tokenizer) +
           std::ssize(header_.dataset_source);
  }

  /// The structure comes from one process, so that all its bytes are the same whatever the number of ranks,
  /// and a full disk meets an ordinary error instead of a collective one.
  void prepare() {
    make_folder(folder_);
    remove_partial_saves(folder_);
    set_aside(partial_);  // a folder of that name, say
    created_ = true;
    {
      // HDF5 1.10 crashes at the end of the program after a file that it could not finish: an error gives the
      // room held here back before the file closes.
      std::optional<H5File> file;
      const FileHandle room = hold_room(folder_, structure_bytes());
      file = H5File::create(partial_);
      write_structure(*file, header_, layout_, state_);
      for (const StateTensor& tensor : state_)
        extents_.push_back(extent_of(file->open_dataset(state_path(tensor.name))));
      file->flush();
      file->close();
    }
    std::ranges::sort(extents_, {}, &Range::begin);
    end_ = static_cast<int64_t>(std::filesystem::file_size(partial_));
    check_size_limit(end_ + CommitRecord::bytes);
    reserve_space(partial_, end_ + CommitRecord::bytes);
  }

  void write_state() {
    world_.everywhere([this] {
      validate(access(partial_.c_str(), R_OK | W_OK) == 0, ExitCode::saving_failed,
               "{} is not visible or not writable here: checkpoints need a folder that all nodes share",
               partial_);
    });
    std::optional<H5File> file;
    std::vector<Target> targets;
    try {
      // Opening and closing are collective: a rank that fails alone must not go on to another collective
      // call, as `everywhere` would, while the others wait for it in here. Its error ends the job.
      fault_point("save.open");
      {
        const Watchdog::Waiting waiting(world_.watchdog());
        file = H5File::open_parallel(partial_, world_.world());
      }
      for (const StateTensor& tensor : state_)
        targets.push_back({tensor, file->open_dataset(state_path(tensor.name)),
                           file->open_dataset(checksum_path(tensor.name))});
      world_.everywhere([&] {
        for (Target& target : targets) write_part(target);
      });
      targets.clear();
      fault_point("save.close");
      const Watchdog::Waiting waiting(world_.watchdog());
      file->close();
    } catch (...) {
      if (file) file->abandon();
      throw;
    }
  }

  struct Target {
    StateTensor tensor;
    H5Dataset values;
    H5Dataset checksums;
  };

  /// This rank's blocks of one tensor.
  void write_part(Target& target) const {
    const FileFault fault = file_point("save.write");
    const Range blocks = part_of(target.checksums.size(), world_.size(), world_.rank());
    const Range elements = elements_of_blocks(blocks, layout_.size());
    const auto data = [&](Range range) {
      return target.tensor.data.flat({range.begin - target.tensor.first, range.end - target.tensor.first});
    };
    target.values.write(elements, H5Element::f32, data(elements).raw(), fault);
    std::vector<uint64_t> checksums;
    for (int64_t block = blocks.begin; block < blocks.end; ++block) {
      const Range range = elements_of_blocks({block, block + 1}, layout_.size());
      checksums.push_back(hash_bytes(data(range).raw(), static_cast<size_t>(data(range).bytes())));
    }
    target.checksums.write(blocks, H5Element::u64, checksums.data());
    world_.watchdog().tick();
  }

  /// Of a folder that is another job's the names are, too.
  void confirm() {
    try {
      confirm_();
    } catch (...) {
      created_ = false;
      throw;
    }
  }

  void commit() {
    const FileFault fault = file_point("save.commit");
    confirm();
    const CommitRecord record{.step = header_.step,
                              .run_id = header_.run_id,
                              .branch = header_.branch,
                              .parent_step = header_.parent_step,
                              .file_size = end_ + CommitRecord::bytes,
                              .digest = digest_of_rest(partial_, end_, extents_),
                              .extents = extents_};
    write_synced(partial_, end_, encode_commit_record(record), fault);
    confirm();
    publish_checkpoint(partial_, path_);
  }

  const std::string& folder_;
  const std::string path_;
  const std::string partial_;
  const CheckpointHeader& header_;
  const Layout& layout_;
  const std::vector<StateTensor>& state_;
  const World& world_;
  const std::function<void()>& confirm_;

  // Known to the root.
  bool created_ = false;
  int64_t end_ = 0;
  std::vector<Range> extents_;
};

}  // namespace

Range checkpoint_part(const Layout& layout, int ranks, int rank) {
  return elements_of_blocks(part_of(checkpoint_blocks(layout.size()), ranks, rank), layout.size());
}

void verify_saved(const std::string& file, const Layout& layout, const std::vector<std::string>& names,
                  const World& world) {
  world.everywhere([&] {
    if (world.node_rank() == 0) forget_cached(file);
  });
  world.everywhere([&] {
    check_file(file_point("save.verify"), ExitCode::damaged, "cannot read " + file);
    const OpenCheckpoint checkpoint = world.is_root() ? open_checkpoint(file) : open_committed(file);
    const Range blocks = part_of(checkpoint_blocks(layout.size()), world.size(), world.rank());
    const auto tick = [&](Range, const Tensor&) { world.watchdog().tick(); };
    for (const std::string& name : names)
      read_blocks(checkpoint, {.name = name, .take = tick}, layout.size(), blocks);
  });
}

void save_checkpoint(const std::string& folder, const CheckpointHeader& header, const Layout& layout,
                     const std::vector<StateTensor>& state, const World& world,
                     const std::function<void()>& confirm) {
  const Range part = checkpoint_part(layout, world.size(), world.rank());
  for (const StateTensor& tensor : state) {
    expects(!tensor.name.empty() && tensor.first <= part.begin);
    expects(tensor.first + tensor.data.size() >= part.end);
  }
  Save(folder, header, layout, state, world, confirm).run();
}

}  // namespace gpt
