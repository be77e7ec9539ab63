# What `cmake --install build/release --prefix DIR` puts where: command, libraries, headers,
# pkg-config and CMake packages, man pages, completions, docs, examples, the model that ships.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS mnem RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS mnem_shared mnem_static mnem_track mnem_serve_shared mnem_serve_static EXPORT mnem
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/mnem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)

if(TARGET mnem-mpi)
  install(TARGETS mnem-mpi RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(TARGETS mnem_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

# find_package(mnem) gives mnem::mnem, mnem::mnem_static, mnem::serve, mnem::mnem_serve_static and
# mnem::track.
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mnem)
install(EXPORT mnem NAMESPACE mnem:: FILE mnem-targets.cmake DESTINATION ${package_dir})
install(FILES cmake/mnem-config.cmake.in RENAME mnem-config.cmake DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/mnem-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mnem-config-version.cmake DESTINATION ${package_dir})

# The file finds its prefix from where it lies, so that the tree may be moved.
file(RELATIVE_PATH pc_to_prefix /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
foreach(name mnem mnem-serve)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

install(FILES models/mnem-kjv-5m-q8_0.gguf DESTINATION ${CMAKE_INSTALL_DATADIR}/mnem/models)
install(FILES docs/mnem.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES docs/mnem.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
install(FILES scripts/completion/_mnem DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES scripts/completion/mnem.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES scripts/completion/mnem.bash RENAME mnem
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs FILES_MATCHING PATTERN *.md)
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples FILES_MATCHING PATTERN *.c)

# For the wheel (pyproject.toml, python/make_wheel): one file of the library, and the command.
install(FILES $<TARGET_FILE:mnem_wheel> DESTINATION mnem/lib COMPONENT python EXCLUDE_FROM_ALL)
install(PROGRAMS $<TARGET_FILE:mnem> DESTINATION mnem/bin COMPONENT python EXCLUDE_FROM_ALL)
