package brake

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

// bucket holds the permits of a provider: each lets one Node that counts go. Its JSON is the
// record.
type bucket struct {
	Permits float64   `json:"permits"`
	At      time.Time `json:"at"`
	// Distrusted is the end of the period without permits after a contradiction.
	Distrusted time.Time `json:"distrustedUntil,omitzero"`
}

// fill adds the permits since the last fill, and caps them.
func (k *bucket) fill(now time.Time, r rate) {
	from := k.At
	if k.Distrusted.After(from) {
		from = k.Distrusted
	}
	if passed := now.Sub(from); passed > 0 && r.period > 0 {
		k.Permits += r.refill * float64(passed) / float64(r.period)
	}
	k.At = now
	if !k.Distrusted.After(now) {
		k.Distrusted = time.Time{}
	}
	k.Permits = max(min(k.Permits, r.most), 0)
}

// distrustSlack saves a write for each further contradiction.
const distrustSlack = time.Minute

// distrust empties the bucket for a period.
func (k *bucket) distrust(now time.Time, r rate) {
	k.Permits = 0
	if k.Distrusted.Before(now.Add(r.period)) {
		k.Distrusted = now.Add(r.period + distrustSlack)
	}
}

// less keeps the lower value of each field of two buckets.
func (k *bucket) less(other bucket) {
	k.Permits = min(k.Permits, other.Permits)
	if k.Distrusted.Before(other.Distrusted) {
		k.Distrusted = other.Distrusted
	}
}

// wait is the time until the bucket has so many permits.
func (k *bucket) wait(permits float64, now time.Time, r rate) time.Duration {
	return max(0, k.Distrusted.Sub(now)) + time.Duration(max(0, permits-k.Permits)/r.refill*float64(r.period))
}

// maxRecord bounds the text of a record, in bytes.
const maxRecord = 1 << 10

// decode reads a record. Times in the future, of a clock that was ahead, become now.
func decode(text string, now time.Time, r rate) (k bucket, err error) {
	if len(text) > maxRecord {
		return k, fmt.Errorf("it has more than %d bytes", maxRecord)
	}
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		return k, err
	}
	if k.At.IsZero() {
		return k, errors.New("it has no time of its writing")
	}
	if latest := now.Add(r.period + distrustSlack); k.Distrusted.After(latest) {
		k.Distrusted = latest
	}
	return k, nil
}

func (k *bucket) encode() (string, error) {
	rounded := bucket{math.Floor(k.Permits*1000) / 1000, k.At.UTC().Truncate(time.Millisecond), k.Distrusted.UTC().Truncate(time.Millisecond)}
	text, err := json.Marshal(rounded)
	return string(text), err
}
