//go:build !linux

package wazero

import (
	"errors"
	"os"
)

func codeFile([]byte, string) (*os.File, error) { return nil, errors.ErrUnsupported }

func replace([]byte, *os.File) error { return errors.ErrUnsupported }
