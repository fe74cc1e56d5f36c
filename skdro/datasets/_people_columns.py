"""Columns of the two sets about people and the values that their documentation lists, in its order."""

ADULT_LEVELS = {
    "workclass": (
        *("Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov"),
        *("Without-pay", "Never-worked"),
    ),
    "education": (
        *("Bachelors", "Some-college", "11th", "HS-grad", "Prof-school", "Assoc-acdm", "Assoc-voc", "9th"),
        *("7th-8th", "12th", "Masters", "1st-4th", "10th", "Doctorate", "5th-6th", "Preschool"),
    ),
    "marital-status": (
        *("Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed"),
        *("Married-spouse-absent", "Married-AF-spouse"),
    ),
    "occupation": (
        *("Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial", "Prof-specialty"),
        *("Handlers-cleaners", "Machine-op-inspct", "Adm-clerical", "Farming-fishing", "Transport-moving"),
        *("Priv-house-serv", "Protective-serv", "Armed-Forces"),
    ),
    "relationship": ("Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried"),
    "race": ("White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"),
    "sex": ("Female", "Male"),
    "native-country": (
        *("United-States", "Cambodia", "England", "Puerto-Rico", "Canada", "Germany"),
        *("Outlying-US(Guam-USVI-etc)", "India", "Japan", "Greece", "South", "China", "Cuba", "Iran"),
        *("Honduras", "Philippines", "Italy", "Poland", "Jamaica", "Vietnam", "Mexico", "Portugal"),
        *("Ireland", "France", "Dominican-Republic", "Laos", "Ecuador", "Taiwan", "Haiti", "Columbia"),
        *("Hungary", "Guatemala", "Nicaragua", "Scotland", "Thailand", "Yugoslavia", "El-Salvador"),
        *("Trinadad&Tobago", "Peru", "Hong", "Holand-Netherlands"),
    ),
}

DIABETES_MEDICATIONS = (
    *("metformin", "repaglinide", "nateglinide", "chlorpropamide", "glimepiride", "acetohexamide"),
    *("glipizide", "glyburide", "tolbutamide", "pioglitazone", "rosiglitazone", "acarbose", "miglitol"),
    *("troglitazone", "tolazamide", "examide", "citoglipton", "insulin", "glyburide-metformin"),
    *("glipizide-metformin", "glimepiride-pioglitazone", "metformin-rosiglitazone"),
    "metformin-pioglitazone",
)

DIABETES_COLUMNS = (
    *("race", "gender", "age", "weight", "admission_type_id", "discharge_disposition_id"),
    *("admission_source_id", "time_in_hospital", "payer_code", "medical_specialty", "num_lab_procedures"),
    *("num_procedures", "num_medications", "number_outpatient", "number_emergency", "number_inpatient"),
    *("diag_1", "diag_2", "diag_3", "number_diagnoses", "max_glu_serum", "A1Cresult"),
    *DIABETES_MEDICATIONS,
    *("change", "diabetesMed"),
)

DIABETES_NUMERIC = (
    *("time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications", "number_outpatient"),
    *("number_emergency", "number_inpatient", "number_diagnoses"),
)

DIABETES_LEVELS = {
    "race": ("Caucasian", "Asian", "AfricanAmerican", "Hispanic", "Other"),
    "gender": ("Male", "Female", "Unknown/Invalid"),
    "age": tuple(f"[{low}-{low + 10})" for low in range(0, 100, 10)),
    "max_glu_serum": ("None", "Norm", ">200", ">300"),
    "A1Cresult": ("None", "Norm", ">7", ">8"),
    "change": ("No", "Ch"),
    "diabetesMed": ("No", "Yes"),
    **{name: ("No", "Down", "Steady", "Up") for name in DIABETES_MEDICATIONS},
}
