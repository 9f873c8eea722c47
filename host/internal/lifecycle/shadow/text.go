package shadow

// Bounds of texts, in bytes.
const (
	maxObjectText = 128
	maxFieldText  = 160
	maxValueText  = 80
	maxErrorText  = 240
	maxReasonText = 512
	maxReportText = 1000 // an Event of Kubernetes has 1024
)
