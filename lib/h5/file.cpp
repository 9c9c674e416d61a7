#include "base/error.hpp"
#include "h5/internal.hpp"

#include <cerrno>
#include <sys/stat.h>
#include <system_error>
#include <utility>

namespace gpt {
namespace {

constexpr hsize_t alignment = hsize_t{4} << 20;

H5PropertyId access_properties(const std::string& where) {
  auto properties = own_h5<H5PropertyId>(H5Pcreate(H5P_FILE_ACCESS), where, ExitCode::failed);
  // Parallel file systems are often mounted without locks, and nothing here writes what another one reads.
  check_h5(H5Pset_file_locking(properties.get(), false, true), where, ExitCode::failed);
  check_h5(H5Pset_libver_bounds(properties.get(), H5F_LIBVER_EARLIEST, H5F_LIBVER_V110), where,
           ExitCode::failed);
  check_h5(H5Pset_alignment(properties.get(), alignment, alignment), where, ExitCode::failed);
  return properties;
}

/// Says in plain words what HDF5 would hide behind its stack.
void check_file(const std::string& path) {
  struct stat status {};
  const int failure = stat(path.c_str(), &status) == 0 ? 0 : errno;
  const bool absent = failure == ENOENT || failure == ENOTDIR;
  validate(failure == 0, absent ? ExitCode::damaged : ExitCode::failed, "cannot open {}: {}", path,
           std::generic_category().message(failure));
  validate(S_ISREG(status.st_mode), ExitCode::damaged, "cannot open {}: it is not a regular file", path);
  validate(status.st_size > 0, ExitCode::damaged, "cannot open {}: it is empty", path);
}

struct NameList {
  std::vector<std::string> names;
  int64_t limit = 0;
};

/// Stops behind the first name too many.
herr_t take_name(hid_t, const char* name, const H5L_info_t*, void* data) {
  NameList& list = *static_cast<NameList*>(data);
  list.names.emplace_back(name);
  return std::ssize(list.names) > list.limit ? 1 : 0;
}

}  // namespace

void check_path(hid_t file, const std::string& file_path, const std::string& name) {
  for (size_t end = name.find('/', 1);; end = name.find('/', end + 1)) {
    const std::string part = name.substr(0, end);
    H5L_info_t info{};
    validate(H5Lexists(file, part.c_str(), H5P_DEFAULT) > 0, ExitCode::damaged, "{}:{}: it is missing",
             file_path, part);
    check_h5(H5Lget_info(file, part.c_str(), &info, H5P_DEFAULT), file_path + ":" + part);
    validate(info.type == H5L_TYPE_HARD, ExitCode::damaged, "{}:{}: it is a link, which is not followed",
             file_path, part);
    if (end == std::string::npos) return;
  }
}

H5PropertyId creation_properties(hid_t property_class, const std::string& where) {
  auto properties = own_h5<H5PropertyId>(H5Pcreate(property_class), where, ExitCode::failed);
  check_h5(H5Pset_obj_track_times(properties.get(), false), where, ExitCode::failed);
  return properties;
}

H5File::H5File(H5FileId id, std::string path) : id_(std::move(id)), path_(std::move(path)) {}

H5File H5File::open(const std::string& path) {
  silence_h5();
  check_file(path);
  const H5PropertyId access = access_properties(path);
  return {own_h5<H5FileId>(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), "cannot open " + path), path};
}

H5File H5File::create(const std::string& path) {
  silence_h5();
  const H5PropertyId access = access_properties(path);
  const H5PropertyId creation = creation_properties(H5P_FILE_CREATE, path);
  return {own_h5<H5FileId>(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()),
                           "cannot create " + path, ExitCode::failed),
          path};
}

H5File H5File::open_parallel(const std::string& path, MPI_Comm comm) {
  silence_h5();
  const H5PropertyId access = access_properties(path);
  check_h5(H5Pset_fapl_mpio(access.get(), comm, MPI_INFO_NULL), path, ExitCode::failed);
  // One rank reads the structure and passes it on, instead of a thousand that read the same bytes.
  check_h5(H5Pset_all_coll_metadata_ops(access.get(), true), path, ExitCode::failed);
  return {own_h5<H5FileId>(H5Fopen(path.c_str(), H5F_ACC_RDWR, access.get()), "cannot open " + path), path};
}

int64_t H5File::size() const {
  haddr_t end = 0;
  check_h5(H5Fget_eoa(id_.get(), &end), path_);
  return static_cast<int64_t>(end);
}

bool H5File::contains(const std::string& name) const {
  for (size_t end = name.find('/', 1);; end = name.find('/', end + 1)) {
    const std::string part = name.substr(0, end);
    if (check_h5(H5Lexists(id_.get(), part.c_str(), H5P_DEFAULT), path_ + ":" + part) == 0) return false;
    if (end == std::string::npos) return true;
  }
}

void H5File::make_group(const std::string& name) {
  const std::string where = path_ + ":" + name;
  const H5PropertyId properties = creation_properties(H5P_GROUP_CREATE, where);
  own_h5<H5GroupId>(H5Gcreate2(id_.get(), name.c_str(), H5P_DEFAULT, properties.get(), H5P_DEFAULT), where,
                    ExitCode::failed);
}

std::vector<std::string> H5File::names_in(const std::string& group, int64_t limit) const {
  const std::string where = path_ + ":" + group;
  check_path(id_.get(), path_, group);
  const auto opened = own_h5<H5GroupId>(H5Gopen2(id_.get(), group.c_str(), H5P_DEFAULT), where);
  NameList list{.names = {}, .limit = limit};
  const int64_t stopped =
      check_h5(H5Literate(opened.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, take_name, &list), where);
  validate(stopped == 0, ExitCode::damaged, "{}: it holds more than {} names", where, limit);
  return std::move(list.names);
}

H5Dataset H5File::create_dataset(const std::string& name, H5Element element, int64_t size) {
  const std::string where = path_ + ":" + name;
  const hsize_t extent = static_cast<hsize_t>(size);
  const auto space = own_h5<H5SpaceId>(H5Screate_simple(1, &extent, nullptr), where, ExitCode::failed);
  const H5PropertyId properties = creation_properties(H5P_DATASET_CREATE, where);
  check_h5(H5Pset_layout(properties.get(), H5D_CONTIGUOUS), where, ExitCode::failed);
  check_h5(H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY), where, ExitCode::failed);
  check_h5(H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER), where, ExitCode::failed);
  return {own_h5<H5DatasetId>(H5Dcreate2(id_.get(), name.c_str(), file_type(element), space.get(),
                                         H5P_DEFAULT, properties.get(), H5P_DEFAULT),
                              "cannot create " + where, ExitCode::failed),
          where};
}

H5Dataset H5File::open_dataset(const std::string& name) const {
  const std::string where = path_ + ":" + name;
  check_path(id_.get(), path_, name);
  return {own_h5<H5DatasetId>(H5Dopen2(id_.get(), name.c_str(), H5P_DEFAULT), where), where};
}

void H5File::write_text(const std::string& name, const std::string& text) {
  const int64_t bytes = static_cast<int64_t>(text.size());
  create_dataset(name, H5Element::u8, bytes).write({0, bytes}, H5Element::u8, text.data());
}

std::string H5File::read_text(const std::string& name, int64_t limit) const {
  const H5Dataset dataset = open_dataset(name);
  validate(dataset.size() <= limit && dataset.element() == H5Element::u8, ExitCode::damaged,
           "{}: not a text of at most {} bytes", dataset.where(), limit);
  std::string text(static_cast<size_t>(dataset.size()), '\0');
  dataset.read({0, dataset.size()}, H5Element::u8, text.data());
  return text;
}

void H5File::flush() {
  check_h5(H5Fflush(id_.get(), H5F_SCOPE_GLOBAL), "cannot write " + path_, ExitCode::failed);
}

void H5File::close() { check_h5(H5Fclose(id_.release()), "cannot finish " + path_, ExitCode::failed); }

void H5File::abandon() { id_.release(); }

}  // namespace gpt
