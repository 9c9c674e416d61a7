#include "train/node_saver.hpp"

#include "base/error.hpp"
#include "base/stopwatch.hpp"
#include "train/node_checkpoint_folder.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

namespace gpt {

NodeSaver::NodeSaver(std::unique_ptr<World> node, NodeCheckpointPlace place, Layout layout, SavedParts parts)
    : node_(std::move(node)), place_(std::move(place)), layout_(std::move(layout)), parts_(std::move(parts)) {
  if (!place_.kept.empty()) files_.push_back(place_.kept);
}

NodeSaveEnd NodeSaver::save(const CheckpointHeader& header) {
  NodeSaveEnd end;
  node_->watchdog().enter(Phase::save, header.step);
  parts_.wait();
  const Stopwatch watch;
  try {
    node_->everywhere([this] {
      if (node_->is_root()) make_room();
    });
    save_checkpoint(place_.folder, header, layout_, parts_.state(), *node_);
  } catch (const SharedError& error) {
    end.failure = error.what();
    return end;
  }
  end.seconds = watch.seconds();
  const std::string file = place_.folder + "/" + checkpoint_name(header.step);
  std::erase(files_, file);  // a step that is saved again, after a rollback
  files_.push_back(file);
  return end;
}

/// For one more beside the newest, in a folder of this user alone.
void NodeSaver::make_room() {
  namespace fs = std::filesystem;
  make_own_folder(place_.base);
  make_own_folder(place_.folder);
  std::error_code error;
  for (; files_.size() > 1; files_.erase(files_.begin())) {
    const fs::path oldest = files_.front();
    fs::remove(oldest, error);
    validate(!error, ExitCode::saving_failed, "cannot delete {}: {}", oldest.string(), error.message());
    if (oldest.parent_path() != place_.folder) fs::remove(oldest.parent_path(), error);  // where it is empty
  }
  // What a save that failed left, or set aside.
  for (fs::directory_iterator entry(place_.folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    if (files_.empty() || entry->path().string() != files_.back()) {
      std::error_code ignored;
      fs::remove(entry->path(), ignored);
    }
}

}  // namespace gpt
