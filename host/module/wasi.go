package module

import "slices"

// wasiModule is the import module of WASI preview 1. Compilers link to it for
// their runtime: the clock, random numbers, arguments and standard output
// work, everything else answers "not supported".
const wasiModule = "wasi_snapshot_preview1"

func wasiFunctions() []string {
	return []string{
		"args_get", "args_sizes_get", "environ_get", "environ_sizes_get", "clock_res_get",
		"clock_time_get", "fd_advise", "fd_allocate", "fd_close", "fd_datasync", "fd_fdstat_get",
		"fd_fdstat_set_flags", "fd_fdstat_set_rights", "fd_filestat_get", "fd_filestat_set_size",
		"fd_filestat_set_times", "fd_pread", "fd_prestat_get", "fd_prestat_dir_name", "fd_pwrite",
		"fd_read", "fd_readdir", "fd_renumber", "fd_seek", "fd_sync", "fd_tell", "fd_write",
		"path_create_directory", "path_filestat_get", "path_filestat_set_times", "path_link",
		"path_open", "path_readlink", "path_remove_directory", "path_rename", "path_symlink",
		"path_unlink_file", "poll_oneoff", "proc_exit", "proc_raise", "random_get", "sched_yield",
		"sock_accept", "sock_recv", "sock_send", "sock_shutdown",
	}
}

func checkWASIImport(i Import) error {
	if !slices.Contains(wasiFunctions(), i.Name) {
		return errorf(ReasonImportUnknown, "import %s.%s is not part of WASI preview 1", i.Module, i.Name)
	}
	return nil
}
