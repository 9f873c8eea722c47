package imports

import "strings"

// wasiParams returns the parameters of each function of preview 1 that returns an errno: i
// is an i32, I an i64. A test compares them with wazero's signatures.
func wasiParams() map[string]string {
	params := map[string]string{}
	for signature, names := range map[string]string{
		"":   "sched_yield",
		"i":  "fd_close fd_datasync fd_sync proc_raise",
		"iI": "fd_filestat_set_size",
		"ii": "args_get args_sizes_get clock_res_get environ_get environ_sizes_get fd_fdstat_get " +
			"fd_fdstat_set_flags fd_filestat_get fd_prestat_get fd_renumber fd_tell random_get sock_shutdown",
		"iII":       "fd_allocate fd_fdstat_set_rights",
		"iIi":       "clock_time_get",
		"iii":       "fd_prestat_dir_name path_create_directory path_remove_directory path_unlink_file sock_accept",
		"iIIi":      "fd_advise fd_filestat_set_times",
		"iIii":      "fd_seek",
		"iiii":      "fd_read fd_write poll_oneoff",
		"iiiIi":     "fd_pread fd_pwrite fd_readdir",
		"iiiii":     "path_filestat_get path_symlink sock_send",
		"iiiiii":    "path_readlink path_rename sock_recv",
		"iiiiIIi":   "path_filestat_set_times",
		"iiiiiii":   "path_link",
		"iiiiiIIii": "path_open",
	} {
		for name := range strings.FieldsSeq(names) {
			params[name] = signature
		}
	}
	return params
}
