# Every library the project stands on, found once and with a plain message when it is missing.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(MPI REQUIRED COMPONENTS C)

set(HDF5_PREFER_PARALLEL ON)
find_package(HDF5 REQUIRED COMPONENTS C)
if(NOT HDF5_IS_PARALLEL)
  message(FATAL_ERROR
    "The HDF5 found in ${HDF5_INCLUDE_DIRS} is a serial build. gpt_mpi writes checkpoints with parallel HDF5: "
    "install libhdf5-openmpi-dev, or set HDF5_ROOT to a parallel build.")
endif()

find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
find_package(fmt 9 REQUIRED)
find_package(nlohmann_json 3 REQUIRED)

find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
file(STRINGS "${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" dnnl_major REGEX "define DNNL_VERSION_MAJOR")
string(REGEX MATCH "[0-9]+$" dnnl_major "${dnnl_major}")
if(NOT dnnl_major EQUAL 2)
  message(FATAL_ERROR
    "The oneDNN found in ${DNNL_INCLUDE_DIR} is version ${dnnl_major}. gpt_mpi uses the interface of version 2, which later "
    "ones do not have: install libdnnl-dev of Debian 12, or set DNNL_INCLUDE_DIR and DNNL_LIBRARY to a build of 2.6 or 2.7.")
endif()
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_path(HWY_INCLUDE_DIR hwy/highway.h REQUIRED)
find_library(HWY_LIBRARY hwy REQUIRED)

add_library(gpt_mpi_c INTERFACE)
add_library(gpt::mpi_c ALIAS gpt_mpi_c)
target_link_libraries(gpt_mpi_c INTERFACE MPI::MPI_C)
# The C++ bindings of Open MPI's header were removed from the standard and warn under g++ 12.
target_compile_definitions(gpt_mpi_c INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)

add_library(gpt_hdf5 INTERFACE)
add_library(gpt::hdf5 ALIAS gpt_hdf5)
target_include_directories(gpt_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS} ${HDF5_INCLUDE_DIRS})
target_link_libraries(gpt_hdf5 INTERFACE ${HDF5_C_LIBRARIES})
target_compile_definitions(gpt_hdf5 INTERFACE ${HDF5_DEFINITIONS})

add_library(gpt_dnnl INTERFACE)
add_library(gpt::dnnl ALIAS gpt_dnnl)
target_include_directories(gpt_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(gpt_dnnl INTERFACE ${DNNL_LIBRARY})

add_library(gpt_highway INTERFACE)
add_library(gpt::highway ALIAS gpt_highway)
target_include_directories(gpt_highway SYSTEM INTERFACE ${HWY_INCLUDE_DIR})
target_link_libraries(gpt_highway INTERFACE ${HWY_LIBRARY})
